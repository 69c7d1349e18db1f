//! What goes over the wire, as compiled from `proto/`.

#![allow(missing_docs, clippy::all, unreachable_pub, unused_qualifications, reason = "it is generated")]

pub mod transport {
    pub mod v1 {
        tonic::include_proto!("io.opensergo.proto.transport.v1");
    }
}

/// All of it, described: for reflection, and to print messages.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
