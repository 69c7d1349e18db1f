//! A disk that loses power, tears writes, fills up, lies and rots, to test the embedded engine with.
//!
//! [`SimDisk`] keeps files in memory and writes every change down in a [`Trace`], between the [`Mark`]s a test
//! puts there. A [`Replay`] walks the trace and builds, at any point, [`Image`]s of what a power cut could have
//! left behind; a [`Fault`] makes calls fail while the engine runs; a [`Rot`] damages an image at rest. It keeps
//! what [`crate::disk`] says the engine may rely on and breaks everything else. Nothing here reads a clock or
//! draws an unseeded number: the same point and seed give the same image. Only tests use it. Start at
//! [`SimDisk`], then [`Replay::image`].

mod crash;
mod disk;
mod faults;
mod image;
mod replay;
mod rot;
mod trace;

mod tests;

pub(crate) use crash::Mood;
pub(crate) use disk::SimDisk;
pub(crate) use faults::{CALLS, Call, Done, EIO, ENOSPC, Fault};
pub(crate) use image::Image;
pub(crate) use replay::Replay;
pub(crate) use rot::Rot;
pub(crate) use trace::{Edit, FileId, Mark, NameOp, Step, Trace};

/// What a disk writes as a whole, at best. A power cut can ruin all of a sector of which a part was being
/// written, so bytes that must survive never share one with bytes still to come.
pub(crate) const SECTOR: usize = 512;
