//! The model test: random operations on a store and on a simple second implementation of it, side by side.
//!
//! Everything the store says must be what the oracle says: outcomes of commits, reads at any revision, watch
//! streams read at any pace, errors. What the store forgets is its own business within the retention that the
//! harness declares, so the window's floor is taken as given and checked against that. Every step draws from a generator of its own, so a run is repeated exactly by its seed however the
//! threads of the store are scheduled. Start at [`run`].

mod draw;
mod driver;
pub(super) mod oracle;
mod retained;
#[cfg(test)]
mod tests;

use self::driver::Driver;
use super::Harness;

/// Operations on one store before the next one is taken. Long enough for watchers to fall behind everything
/// that is kept for them; short enough for many beginnings.
const EPISODE: usize = 2000;

/// How many operations a run makes by default, over all its stores.
pub const N_OPS: usize = 200_000;

/// Makes `n_ops` random operations on as many stores as that takes; panics when one does not act as it should.
///
/// The environment has the last word: `WINDLASS_MODEL_OPS` sets the number of operations, and
/// `WINDLASS_MODEL_SEED` repeats the one store that the message of a failed run names.
pub async fn run(harness: &dyn Harness, n_ops: usize, seed: u64) {
    if let Some(seed) = from_env("WINDLASS_MODEL_SEED") {
        return episode(harness, EPISODE, seed).await;
    }
    let n_ops = from_env("WINDLASS_MODEL_OPS").map_or(n_ops, |n_ops| n_ops as usize);
    for idx in 0..n_ops.div_ceil(EPISODE) {
        let n_left = n_ops - idx * EPISODE;
        episode(harness, n_left.min(EPISODE), seed.wrapping_add(idx as u64)).await;
    }
}

fn from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

async fn episode(harness: &dyn Harness, n_ops: usize, seed: u64) {
    let mut told = TellSeed { seed, n_done: 0 };
    let mut seeds = fastrand::Rng::with_seed(seed);
    let mut driver = Driver::start(harness).await;
    for _ in 0..n_ops {
        driver.step(&mut fastrand::Rng::with_seed(seeds.u64(..))).await;
        told.n_done += 1;
    }
    driver.finish().await;
}

/// Says how to repeat the run when it fails.
struct TellSeed {
    seed: u64,
    n_done: usize,
}

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let TellSeed { seed, n_done } = self;
            eprintln!(
                "the model run failed in operation {n_done}; repeat it with WINDLASS_MODEL_SEED={seed}"
            );
        }
    }
}
