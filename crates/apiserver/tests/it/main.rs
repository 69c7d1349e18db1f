//! The API server from the outside, without a network: what clients may rely on.

mod admission;
mod client;
mod corpus;
mod creating;
mod deleting;
mod describing;
mod forms;
mod fuzz;
#[allow(dead_code)]
mod hooks;
mod listing;
mod scenarios;
mod subresources;
mod updating;
mod watching;
