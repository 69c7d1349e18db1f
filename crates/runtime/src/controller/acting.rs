//! The right to act, which a reconcile can lose while it is under way.

use std::{future::Future, sync::Arc};

/// Says whether those who act may still do so.
pub(crate) type MayAct = Arc<dyn Fn() -> bool + Send + Sync>;

tokio::task_local! {
    static MAY_ACT: MayAct;
}

/// Whether the reconcile that asks may still act. On behalf of a leadership it may while that lasts; without an election,
/// and outside of reconciles, always. It is worth a look before every write that another leader would have to undo.
pub fn may_act() -> bool {
    MAY_ACT.try_with(|may_act| may_act()).unwrap_or(true)
}

/// Runs something that may ask.
pub(super) async fn acting<T>(may_act: &MayAct, work: impl Future<Output = T>) -> T {
    MAY_ACT.scope(Arc::clone(may_act), work).await
}
