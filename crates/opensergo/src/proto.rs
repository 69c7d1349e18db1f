//! What goes over the wire, as compiled from `proto/`. Modules are named as packages are.

#![allow(missing_docs, clippy::all, unreachable_pub, unused_qualifications, reason = "it is generated")]

pub mod transport {
    pub mod v1 {
        tonic::include_proto!("io.opensergo.proto.transport.v1");
    }
}

pub mod common {
    pub mod v1 {
        tonic::include_proto!("io.opensergo.proto.common.v1");
    }
}

pub mod fault_tolerance {
    pub mod v1 {
        tonic::include_proto!("io.opensergo.proto.fault_tolerance.v1");
    }
}

pub mod router {
    pub mod v1 {
        tonic::include_proto!("io.opensergo.proto.router.v1");
    }
}

pub mod envoy {
    pub mod config {
        pub mod core {
            pub mod v3 {
                tonic::include_proto!("envoy.config.core.v3");
            }
        }
        pub mod route {
            pub mod v3 {
                tonic::include_proto!("envoy.config.route.v3");
            }
        }
    }
    pub mod r#type {
        pub mod v3 {
            tonic::include_proto!("envoy.r#type.v3");
        }
        pub mod matcher {
            pub mod v3 {
                tonic::include_proto!("envoy.r#type.matcher.v3");
            }
        }
    }
}

/// All of it, described: for reflection, and to print messages.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
