//! A disk that fills up and fails, to test the embedded engine with.
//!
//! [`SimDisk`] keeps files in memory and writes every change down in a [`Trace`], between the [`Mark`]s a test
//! puts there; a [`Fault`] makes calls fail while the engine runs. Only tests use it. Start at [`SimDisk`].

mod disk;
mod faults;
mod image;
mod trace;

mod tests;

pub(crate) use disk::SimDisk;
pub(crate) use faults::{CALLS, Call, Done, EIO, ENOSPC, Fault};
pub(crate) use image::Image;
pub(crate) use trace::{Edit, FileId, Mark, NameOp, Step, Trace};
