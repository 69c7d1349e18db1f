//! The API server from the outside, without a network: what clients may rely on.

mod admission;
mod auditing;
mod client;
mod corpus;
mod creating;
mod custom;
mod cve;
mod deleting;
mod describing;
mod forms;
mod fuzz;
mod hooks;
mod listing;
mod scenarios;
mod subresources;
mod updating;
mod watching;
