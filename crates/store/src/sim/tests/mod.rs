//! Proof that the simulated disk keeps its few promises and breaks all others.

mod live;
mod power_cut;
mod rot;
mod toy_log;
