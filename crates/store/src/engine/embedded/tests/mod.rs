//! The embedded engine on a disk that can do anything to it.

mod faults;
mod power_cut;
mod rot;
mod world;
