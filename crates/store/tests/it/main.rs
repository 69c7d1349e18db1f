//! The store through its public surface.

mod kill;
