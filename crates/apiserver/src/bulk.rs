//! Threads for long work, apart from those that serve everyone.
//!
//! A list looks at many objects, and a core is busy with it for a while. On threads of the lowest priority it has all of
//! the cores while nobody else wants them, and whoever asks for little has one at once: the system sees to that.
//!
//! Most servers' kernels do not interrupt a thread for another before the next tick, 4 ms later perhaps, whatever the
//! priorities are; but they look whenever a thread calls them. So long work calls often: see [`give_way`].

use std::{future::Future, panic::resume_unwind, sync::LazyLock, thread};

use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// How much the threads give way to others: as much as there is.
const NICE: i32 = 19;

/// One for each core, shared by all servers of the process. None if there can be no more threads: then work is done where
/// it is asked for.
static THREADS: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let built = Builder::new_multi_thread()
        .worker_threads(thread::available_parallelism().map_or(1, Into::into))
        .thread_name("windlass-bulk")
        .on_thread_start(|| {
            // Work of usual priority is still work.
            let _ = rustix::process::nice(NICE);
        })
        .build();
    built.ok()
});

/// Does work, elsewhere if it is long. It ends when nobody waits for it any more.
pub(crate) async fn bulk<T: Send + 'static>(
    is_long: bool,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let Some(threads) = THREADS.as_ref().filter(|_| is_long) else { return work.await };
    match AbortOnDropHandle::new(threads.spawn(work)).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Nobody ends it but who waits for it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Lets other threads run that wait for this core. Costs next to nothing when there are none.
pub(crate) fn give_way() {
    thread::yield_now();
}
