//! The API server from the outside, without a network: what clients may rely on.

mod admission;
mod client;
mod corpus;
mod creating;
mod custom;
mod deleting;
mod describing;
mod fairness;
mod forms;
mod fuzz;
mod hooks;
mod listing;
mod scenarios;
mod subresources;
mod updating;
mod watching;
