//! The store through its public surface.

mod formats;
mod kill;
