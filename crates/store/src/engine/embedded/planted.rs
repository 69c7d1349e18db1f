//! Bugs on purpose: the power-cut tests must find each of them, or they prove nothing.
//!
//! Outside tests no bug exists and every question here is answered at compile time.

/// A mistake the engine could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The log is written but not synced.
    SkipSync,
    /// Writers are answered before the sync.
    AckBeforeSync,
    /// Names of new files are not synced.
    SkipNameSync,
    /// A new part is used before its bytes are synced.
    SkipPartSync,
    /// The manifest is renamed into place before its bytes are synced.
    SkipManifestSync,
    /// The end of the log is written anew at a start, and not synced.
    SkipMendSync,
    /// Recovery keeps the torn tail and writes on behind it.
    KeepTornTail,
    /// Recovery cuts one good frame too many.
    CutTooMuch,
    /// The revision counter starts from the last checkpoint after a crash.
    ReuseRevision,
    /// Old segments go before the manifest that no longer needs them is durable.
    DropSegmentsEarly,
    /// A checkpoint is labelled with the head though it holds the state of the floor.
    MislabelPart,
    /// Checksums are not checked.
    TrustChecksums,
}

/// Whether this bug is planted in this thread.
#[inline]
pub(crate) fn bug(bug: Bug) -> bool {
    #[cfg(test)]
    return PLANTED.get() == Some(bug);
    #[cfg(not(test))]
    {
        let _ = bug;
        false
    }
}

#[cfg(test)]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in this thread, or none.
#[cfg(test)]
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
