//! Controllers against a real API server.

mod copies;
mod kinds;
mod leaders;
mod scopes;

use std::time::Duration;

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use windlass_runtime::{ControllerStatus, Manager};

/// How long a test waits for something that should happen soon.
const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until something is so; how long that took.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < DEADLINE, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
    begun.elapsed()
}

/// A manager that runs.
struct Running {
    manager: Manager,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn new(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (manager, stop) = (manager.clone(), stop.clone());
            async move { manager.run(stop).await }
        });
        Running { manager, stop, task }
    }

    /// How its only controller is.
    fn status(&self) -> ControllerStatus {
        self.manager.status().into_iter().next().expect("there is one")
    }

    async fn is(&self, state: &str) -> Duration {
        eventually(state, async || self.status().state == state).await
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic");
    }
}
