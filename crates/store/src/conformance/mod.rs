//! The proof of the contract: one suite that every engine must pass.
//!
//! Nothing here is specific to one engine. Revisions may have gaps and an empty store may stand anywhere, so
//! everything is compared with what the store itself says. There are three parts: the [`CASES`], each a claim
//! about the contract; the [`model`], random operations against a simple second implementation; and
//! [`linear`], concurrent histories checked for linearizability. An engine's tests implement [`Harness`] and
//! call [`run_all`], [`model::run`] and [`linear::run`]. A failed claim is a panic.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::Store;

pub mod linear;
pub mod model;

mod commits;
mod compaction;
mod follow;
mod harness;
mod plan;
mod probe;
mod reads;
mod toy_seal;
mod watches;

pub use harness::{Harness, ManualClock};
pub use plan::{Contents, Plan, Version};
pub use toy_seal::ToySeal;

/// One claim about the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// The claim, as the name of the function that checks it.
    pub name: &'static str,
    /// Checks it on an empty store that nobody else uses; panics when it does not hold.
    pub check: fn(Arc<dyn Store>) -> Checking,
}

/// A case being checked.
pub type Checking = Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($topic:ident { $($name:ident,)* })*) => {
        /// Every claim of the suite.
        pub const CASES: &[Case] = &[
            $($(Case { name: stringify!($name), check: |store| Box::pin($topic::$name(store)) },)*)*
        ];
    };
}

cases! {
    commits {
        every_effective_commit_gets_a_higher_revision,
        absent_holds_only_while_the_key_does_not_exist,
        at_holds_only_for_the_last_write,
        a_requirement_guards_changes_to_other_keys,
        a_refusal_names_every_mismatch_and_what_is_there,
        a_refused_transaction_writes_nothing,
        changes_of_a_transaction_share_one_revision,
        a_transaction_without_effect_makes_no_revision,
        putting_the_same_value_again_is_a_change,
        a_malformed_transaction_is_refused_and_writes_nothing,
        a_transaction_at_every_limit_is_taken,
        a_deleted_key_can_be_created_anew,
        keys_and_values_may_be_any_bytes,
        a_dropped_commit_happens_wholly_or_not_at_all,
        racing_swaps_have_one_winner_per_round,
    }
    reads {
        a_prefix_selects_exactly_the_keys_that_start_with_it,
        a_range_heeds_its_start_and_limit_and_says_if_there_is_more,
        pages_cover_a_range_without_gap_or_overlap,
        every_revision_of_the_window_reads_as_it_was,
        a_snapshot_does_not_change_while_writers_write,
        a_snapshot_never_shows_half_a_transaction,
        a_snapshot_outlives_the_history_it_was_taken_from,
        a_snapshot_lists_the_changes_since,
        seen_is_a_true_past_and_catches_up,
        latest_contains_what_anyone_was_acknowledged,
        a_revision_beyond_the_head_is_in_the_future,
    }
    compaction {
        compaction_moves_the_floor_and_changes_nothing_readable,
        compacting_to_the_floor_again_is_no_error,
        compacting_below_the_floor_is_refused,
        compacting_above_the_head_is_refused_and_changes_nothing,
        compacting_to_the_head_keeps_what_is_live,
        what_is_below_the_floor_is_compacted,
        deletions_around_the_floor_read_as_they_were,
        a_watch_from_the_floor_tells_of_a_deletion_just_above_it,
        revisions_go_on_after_compaction,
        a_long_history_can_be_compacted_at_once,
    }
    watches {
        a_watch_from_any_revision_tells_everything_after_it,
        a_change_carries_what_was_there_before,
        a_watch_sees_only_its_prefix,
        a_revision_is_delivered_whole,
        watchers_of_nested_prefixes_agree_with_the_history,
        a_watch_begun_among_writers_misses_nothing,
        progress_never_runs_ahead_of_changes,
        a_quiet_watch_makes_progress_to_the_head,
        dropping_next_loses_nothing,
        a_stalled_watcher_is_cut_off_and_delays_nobody,
        a_watcher_that_has_read_everything_survives_compaction,
        compaction_never_makes_a_watch_skip_a_change,
        closing_ends_watches_and_refuses_commits,
    }
}

/// Checks every case on its own store and reports all that failed, by name.
pub async fn run_all(harness: &dyn Harness) {
    let mut failed = Vec::new();
    for case in CASES {
        let store = harness.fresh().await;
        // A task of its own turns the panic into a value; the message itself goes out when it happens.
        if tokio::spawn((case.check)(store.clone())).await.is_err() {
            failed.push(case.name);
        }
        store.close().await;
    }
    assert!(failed.is_empty(), "{} of {} cases failed: {}", failed.len(), CASES.len(), failed.join(", "));
}
