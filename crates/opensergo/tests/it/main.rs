//! The crate from outside.

mod allowed;
mod cve;
mod definitions;
mod delivery;
mod document;
mod faults;
mod files;
mod golden;
mod hostile;
mod line;
mod pages;
mod reference_bugs;
mod replicas;
mod reported;
mod sdk;
mod world;
