//! The signals that end a server: SIGTERM, and SIGINT, which is Ctrl-C.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, from the moment this is made.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over. Until then they end the process as they always do.
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one and returns the exit code that goes with it.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => 128 + SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => 128 + SignalKind::interrupt().as_raw_value(),
        }
    }
}
