//! The API server from the outside, without a network: what clients may rely on.

mod access;
mod admission;
mod client;
mod corpus;
mod creating;
mod custom;
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
