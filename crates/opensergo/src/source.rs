//! Where rules come from: an API server, or a directory.

use async_trait::async_trait;

use crate::topic::KindId;

/// Tells a [`Plane`](crate::plane::Plane) of objects.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Waits until everything of a kind that was there when this was called has been seen, if anybody else could have told of
    /// it before; returns the revision of what has been.
    async fn catch_up(&self, kind: KindId) -> i64;

    /// Whether there is no such kind.
    fn is_missing(&self, kind: KindId) -> bool;

    /// What is wrong with what is seen of a kind, if anything.
    fn trouble(&self, kind: KindId) -> Option<String>;
}
