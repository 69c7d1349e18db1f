//! Phase machines: work that goes through phases, and goes on where it was when the process dies.
//!
//! A [`Machine`] has phases, each with a [`Step`] to run, with the phase that follows and the one that follows when it
//! fails. Steps compose: one after another, all at once, and over batches of objects. What has been done is kept in the
//! object's status ([`PhaseStatus`]), and whatever is finished there never runs again. A step that must not run twice is
//! a [`Once`]: that it is about to happen is written down first, and after a crash it is asked whether it did.
//!
//! [`Machine::advance`] and [`Machine::absorb`] decide everything and touch nothing: status, time and answers in, status
//! and what to do next out. [`PhaseReconciler`] does what they say, on objects of an API server.
//!
//! People steer a machine by annotations of its object: [`PAUSED`], [`BARRIER`] and [`RESET`].
//!
//! ```
//! use windlass_runtime::phase::{Ctx, Machine, Phase, Report, Step};
//!
//! # struct Backup;
//! let machine = Machine::<Backup>::builder("backup")
//!     .initial("Pending")
//!     .phase(Phase::new("Pending").runs(Step::nothing()).then("Copy").or("Failed"))
//!     .phase(
//!         Phase::new("Copy")
//!             .runs(Step::new(|_: Ctx<Backup>| async { Ok(Report::done()) }))
//!             .then("Succeeded")
//!             .or("Failed"),
//!     )
//!     .succeeds("Succeeded")
//!     .fails("Failed")
//!     .build()
//!     .expect("every phase leads to an end");
//! assert!(machine.mermaid().contains("Copy --> Succeeded"));
//! ```

mod absorb;
mod advance;
mod conditions;
mod definition;
mod graph;
mod live;
mod reconciler;
mod status;
mod step;
#[cfg(test)]
mod tests;

pub use self::{
    advance::{Call, Deed, Given, Naps, Next},
    definition::{Builder, Machine, Phase},
    graph::{GraphError, GraphErrors, GraphFormat},
    reconciler::{PhaseReconciler, asked},
    status::{Intent, ObjectState, PhaseStatus, Progress, StepState},
    step::{Batch, Ctx, Handler, Item, ItemOutcome, Once, Outcome, Path, Reply, Report, Step, StepError},
};

/// Annotation: while it is `true`, nothing begins. The field `spec.paused` does the same. Time stands still for timeouts.
pub const PAUSED: &str = "windlass.dev/paused";

/// Annotation: where to stop, as `before:PHASE` or `after:PHASE`, with commas between several.
pub const BARRIER: &str = "windlass.dev/barrier";

/// Annotation: a failed machine goes back to the phase that failed, once for each value.
pub const RESET: &str = "windlass.dev/reset";
