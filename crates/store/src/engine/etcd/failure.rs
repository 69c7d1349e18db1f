//! Failures: what a request that was not answered as it should may have done, and what to try next.
//!
//! etcd tells most of its errors apart by their text only; all texts we go by are in here. Start at
//! [`Failure::had_no_effect`].

use std::sync::Arc;

use tonic::Code;

/// What became of a request that was not answered as it should.
#[derive(Clone, Debug, thiserror::Error)]
#[error("etcd at {endpoint}: {message}")]
pub(super) struct Failure {
    endpoint: Arc<str>,
    kind: Kind,
    message: String,
}

/// The ways in which a request can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// There was no connection to send it on.
    NotSent,
    /// It was sent, or was about to be, and time ran out.
    TimedOut,
    /// etcd said so, or the connection broke while it was under way.
    Status(Code),
    /// The answer came from someone else.
    OtherCluster,
}

impl Failure {
    pub(super) fn new(endpoint: Arc<str>, kind: Kind, message: String) -> Self {
        Failure { endpoint, kind, message }
    }

    /// Whether there was no connection to send the request on.
    pub(super) fn is_unsent(&self) -> bool {
        self.kind == Kind::NotSent
    }

    /// Whether the request certainly changed nothing.
    ///
    /// Running out of space is not among these: etcd may report it for a write that it has applied.
    pub(super) fn had_no_effect(&self) -> bool {
        match self.kind {
            Kind::NotSent => true,
            Kind::Status(Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented) => true,
            Kind::Status(Code::PermissionDenied | Code::Unauthenticated) => true,
            Kind::Status(Code::ResourceExhausted) => {
                self.message.contains("too many requests") || self.message.contains("larger than max")
            }
            _ => false,
        }
    }

    /// Whether the request asked for a revision that has been compacted.
    pub(super) fn is_compacted(&self) -> bool {
        self.kind == Kind::Status(Code::OutOfRange) && self.message.contains("compacted")
    }

    /// Whether the request asked for a revision that etcd has not reached.
    pub(super) fn is_future(&self) -> bool {
        self.kind == Kind::Status(Code::OutOfRange) && self.message.contains("future")
    }

    /// Whether the request was too large for etcd.
    pub(super) fn is_too_large(&self) -> bool {
        let limits = ["request is too large", "larger than max"];
        self.had_no_effect() && limits.iter().any(|limit| self.message.contains(limit))
    }

    /// Whether it came from another cluster than the one we began with.
    pub(super) fn is_other_cluster(&self) -> bool {
        self.kind == Kind::OtherCluster
    }

    /// Whether etcd may not do this for the user we are.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.kind, Kind::Status(Code::PermissionDenied | Code::Unauthenticated))
    }

    /// Whether a login failed because etcd has authentication disabled.
    pub(super) fn needs_no_token(&self) -> bool {
        self.kind == Kind::Status(Code::FailedPrecondition)
    }

    /// Whether a fresh token may help. None of these had an effect.
    pub(super) fn needs_token(&self, had_token: bool) -> bool {
        let stale = ["user name is empty", "revision of auth store is old"];
        match self.kind {
            Kind::Status(Code::Unauthenticated) => true,
            Kind::Status(Code::InvalidArgument) => stale.iter().any(|text| self.message.contains(text)),
            // Without a token etcd goes by the name in the client's certificate.
            Kind::Status(Code::PermissionDenied) => !had_token,
            _ => false,
        }
    }

    /// Whether another member may do better.
    pub(super) fn blames_member(&self) -> bool {
        match self.kind {
            Kind::NotSent | Kind::TimedOut => true,
            Kind::Status(Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled) => true,
            Kind::Status(_) | Kind::OtherCluster => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: Kind, message: &str) -> Failure {
        Failure::new("http://etcd:2379".into(), kind, message.into())
    }

    #[test]
    fn only_what_etcd_certainly_did_not_do_had_no_effect() {
        for (code, message) in [
            (Code::InvalidArgument, "etcdserver: request is too large"),
            (Code::PermissionDenied, "etcdserver: permission denied"),
            (Code::Unauthenticated, "etcdserver: invalid auth token"),
            (Code::ResourceExhausted, "etcdserver: too many requests"),
        ] {
            assert!(failure(Kind::Status(code), message).had_no_effect(), "{message}");
        }
        assert!(failure(Kind::NotSent, "connection refused").had_no_effect());
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unknown, "h2 protocol error: error reading a body from connection"),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Code::Cancelled, "operation was canceled"),
        ] {
            assert!(!failure(Kind::Status(code), message).had_no_effect(), "{message}");
        }
        assert!(!failure(Kind::TimedOut, "no answer within 5s").had_no_effect());
        assert!(!failure(Kind::OtherCluster, "belongs to cluster 2").had_no_effect());
    }
}
