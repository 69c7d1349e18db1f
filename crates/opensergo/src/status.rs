//! What clients are told when something is wrong: the codes of the protocol, and statuses of gRPC. Nobody else makes any.

use std::fmt;

use tonic::Status;

use crate::proto::transport::v1;

/// It went well.
pub(crate) const SUCCESS: i32 = 1;
/// A request makes no sense. SDKs swallow answers with codes from 4000 to 4099.
pub(crate) const BAD_REQUEST: i32 = 4002;
/// A request is refused.
pub(crate) const FORBIDDEN: i32 = 4003;
/// There are too many of something.
pub(crate) const TOO_MANY: i32 = 4004;
/// A client says that it knows a newer version.
pub(crate) const OUTDATED: i32 = 4010;

/// The flags of answers.
pub(crate) const ACK: &str = "ACK";
pub(crate) const NACK: &str = "NACK";

/// A status within a message.
pub(crate) fn said(code: i32, message: impl Into<String>) -> v1::Status {
    v1::Status { code, message: message.into(), details: vec![] }
}

/// A message could not be encoded, which cannot be.
pub(crate) fn unencodable(error: prost::EncodeError) -> Status {
    Status::internal(error.to_string())
}

/// There are too many streams.
pub(crate) fn too_many_streams(most: usize) -> Status {
    Status::resource_exhausted(format!(
        "there are {most} streams already, and no more are taken; try again later"
    ))
}

/// A client does not take what it is sent.
pub(crate) fn too_slow(seconds: u64) -> Status {
    Status::aborted(format!("nothing of what was sent has been read for {seconds} s"))
}

/// There is no such method.
pub(crate) fn unknown_method() -> Status {
    Status::unimplemented("expected SubscribeConfig")
}

/// The process ends.
pub(crate) fn going_away() -> Status {
    Status::unavailable("the control plane is stopping; connect again")
}

/// Nobody knows the client.
pub(crate) fn unauthenticated(why: impl fmt::Display) -> Status {
    Status::unauthenticated(why.to_string())
}

/// What a client was allowed it is no longer.
pub(crate) fn no_longer_allowed(why: impl fmt::Display) -> Status {
    Status::permission_denied(why.to_string())
}

/// Who clients are, or what they may do, could not be found out.
pub(crate) fn cannot_tell() -> Status {
    Status::unavailable("it cannot be told now who this is and what it may do; try again")
}
