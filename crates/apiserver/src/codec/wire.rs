//! Protobuf on the wire: numbered fields, one after the other.

use super::protobuf::Error;

/// What a field holds, as far as the wire tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// Reads a message field by field.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next field's number and what it holds, or `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Error::Tag)?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.fixed64()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| Error::Truncated)?;
                Wire::Bytes(self.take(len)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(Error::Tag),
        };
        Ok(Some((number, wire)))
    }

    /// The next of the numbers that are packed into one field, or `None` at the end.
    pub(super) fn packed(&mut self, wide: bool) -> Result<Option<Wire<'a>>, Error> {
        match (self.rest.is_empty(), wide) {
            (true, _) => Ok(None),
            (false, true) => self.fixed64().map(|bits| Some(Wire::Fixed64(bits))),
            (false, false) => self.varint().map(|number| Some(Wire::Varint(number))),
        }
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0u64;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(Error::Truncated)
    }

    fn fixed64(&mut self) -> Result<u64, Error> {
        let (bits, rest) = self.rest.split_first_chunk().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bits))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}
