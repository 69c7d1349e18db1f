//! The API server from the outside, without a network: what clients may rely on.

mod client;
mod corpus;
mod creating;
mod deleting;
mod describing;
mod forms;
mod fuzz;
mod listing;
mod scenarios;
mod subresources;
mod updating;
mod watching;
