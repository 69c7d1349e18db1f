//! The body of an answer.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream};
use http_body::{Frame, SizeHint};

/// The body of an answer: known at once, or made piece by piece as the client reads it.
pub struct Body {
    kind: Kind,
    /// What is given back once the body has been sent or given up.
    held: Option<Box<dyn Send>>,
}

enum Kind {
    Whole(Option<Bytes>),
    /// Pieces of one message, so that nothing has to be copied together.
    Pieces(std::vec::IntoIter<Bytes>, u64),
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    fn of(kind: Kind) -> Self {
        Body { kind, held: None }
    }

    /// Keeps something until the body has been sent or given up.
    pub(crate) fn holding(mut self, held: impl Send + 'static) -> Self {
        self.held = Some(match self.held.take() {
            Some(before) => Box::new((before, held)),
            None => Box::new(held),
        });
        self
    }

    /// Nothing.
    pub fn empty() -> Self {
        Body::of(Kind::Whole(None))
    }

    /// Everything at once.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Body::of(Kind::Whole(Some(bytes.into())))
    }

    /// Pieces that are sent one after the other.
    pub fn pieces(pieces: Vec<Bytes>) -> Self {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        Body::of(Kind::Pieces(pieces.into_iter(), len))
    }

    /// Made as the client reads it.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Body::of(Kind::Stream(Box::pin(stream)))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.kind {
            Kind::Whole(bytes) => bytes.take(),
            Kind::Pieces(pieces, left) => {
                let piece = pieces.next();
                *left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
                piece
            }
            Kind::Stream(stream) => match stream.as_mut().poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Pieces(_, left) => *left == 0,
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Pieces(_, left) => SizeHint::with_exact(*left),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
