//! The embedded engine on a disk that can do anything to it.

mod faults;
mod format;
mod live;
mod power_cut;
mod rot;
mod sealed;
mod world;
