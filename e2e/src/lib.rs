//! Drives Windlass from outside: the built binary, real clients, processes and sockets of this machine.
//!
//! A test starts a [`Server`] of its own, in a directory that goes away with it, and asks it through a client; it never
//! links the server's crates. Whatever is missing on the machine fails the test and says what to do. Start at
//! [`Server::start`].

mod binary;
mod foreign;
mod kubectl;
mod opensergo;
mod process;
mod raw;
mod server;
mod words;

pub use kubectl::{Kubectl, Ran};
pub use opensergo::{Held, Sdk, Subscriber};
pub use process::{Running, eventually};
pub use raw::{Answer, NoAnswer, Raw, page};
pub use rustix::process::Signal;
pub use server::Server;
