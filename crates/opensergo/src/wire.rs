//! How messages go over the wire.
//!
//! What is told of a topic is encoded once, however many are told: every message is a small head and those bytes. And what
//! cannot be understood is no reason to end a stream, so it is handed on.

use std::sync::Arc;

use bytes::{Buf, BufMut};
use prost::{
    DecodeError, Message,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::{
    proto::transport::v1::{SubscribeRequest, SubscribeResponse},
    rules::Content,
};

/// Streams are idle most of the time, and there are many: buffers begin small, and grow when there is something in them.
const BUFFER: usize = 256;
const YIELD: usize = 32 * 1024;

/// The fields of a response and of its data that are not encoded by way of a message.
const DATA_WITH_VERSION: u32 = 6;
const VERSION: u32 = 2;

/// A request, or bytes that are none.
pub(crate) type Incoming = Result<SubscribeRequest, DecodeError>;

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// All of it but the data.
    pub(crate) head: SubscribeResponse,
    /// The data, with its version.
    pub(crate) data: Option<(Arc<Content>, i64)>,
}

impl Outgoing {
    fn encode(&self, buffer: &mut impl BufMut) -> Result<(), prost::EncodeError> {
        self.head.encode(buffer)?;
        let Some((content, version)) = &self.data else { return Ok(()) };
        // As an int64 it is sign-extended, and as a varint always of those bits.
        let version = *version as u64;
        let len = content.data.len() + key_len(VERSION) + encoded_len_varint(version);
        encode_key(DATA_WITH_VERSION, WireType::LengthDelimited, buffer);
        encode_varint(len as u64, buffer);
        buffer.put_slice(&content.data);
        encode_key(VERSION, WireType::Varint, buffer);
        encode_varint(version, buffer);
        Ok(())
    }
}

/// Encodes and decodes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transport;

impl Codec for Transport {
    type Encode = Outgoing;
    type Decode = Incoming;
    type Encoder = Transport;
    type Decoder = Transport;

    fn encoder(&mut self) -> Transport {
        Transport
    }

    fn decoder(&mut self) -> Transport {
        Transport
    }
}

impl Encoder for Transport {
    type Item = Outgoing;
    type Error = Status;

    fn encode(&mut self, item: Outgoing, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let len = item.data.as_ref().map_or(0, |(content, _)| content.data.len());
        buffer.reserve(BUFFER + len);
        item.encode(buffer).map_err(crate::status::unencodable)
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD)
    }
}

impl Decoder for Transport {
    type Item = Incoming;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Incoming>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(SubscribeRequest::decode(bytes)))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD)
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Any;

    use super::*;
    use crate::proto::transport::v1::DataWithVersion;

    #[test]
    fn a_head_and_its_data_are_one_message() {
        for (version, n_rules) in [(0, 0), (1, 1), (300, 3), (i64::MAX, 2), (-1, 1)] {
            let rule = |idx: usize| Any { type_url: format!("type/{idx}"), value: vec![7; idx * 100] };
            let data = DataWithVersion { data: (0..n_rules).map(rule).collect(), version };
            let encoded = DataWithVersion { version: 0, ..data.clone() }.encode_to_vec();
            let head = SubscribeResponse {
                kind: "k".to_owned(),
                response_id: "r".to_owned(),
                ..SubscribeResponse::default()
            };
            let content =
                Arc::new(Content { number: 1, data: encoded.into(), hash: 0, n_rules, withheld: None });
            let mut bytes = vec![];
            Outgoing { head: head.clone(), data: Some((content, version)) }
                .encode(&mut bytes)
                .expect("there is room");
            let decoded = SubscribeResponse::decode(&*bytes).expect("a message");
            assert_eq!(decoded, SubscribeResponse { data_with_version: Some(data), ..head });
        }
    }
}
