//! Housekeeping against a real API server, as users of `kubectl` see it.

mod collecting;
mod counting;
mod defaults;
mod emptying;
mod expiring;
mod house;
mod managing;
mod meddler;
mod mishaps;
mod protecting;
