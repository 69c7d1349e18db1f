//! The API server from the outside, without a network: what clients may rely on.

mod access;
mod access_tokens;
mod admission;
mod api_services;
mod applying;
mod auditing;
mod client;
mod components;
mod corpus;
mod creating;
mod custom;
mod cve;
mod deleting;
mod describing;
mod fairness;
mod forms;
mod fuzz;
mod hooks;
mod issuers;
mod listing;
mod provider;
mod scenarios;
mod subresources;
mod unrestricted;
mod updating;
mod watching;
