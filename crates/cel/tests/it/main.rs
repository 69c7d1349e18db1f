//! What expressions come to, what they cost, and what is refused: by the documented behaviour of CEL and of
//! the Kubernetes libraries.

mod authorizer;
mod collections;
mod cost;
mod errors;
mod estimates;
mod hostile;
mod language;
mod mutation;
mod network;
mod numbers;
mod optionals;
mod rules;
mod schemas;
mod strings;
mod support;
mod time;
