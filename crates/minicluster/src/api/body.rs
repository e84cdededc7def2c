//! The body of an answer: one text, many pieces, or a stream that goes on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::{Frame, SizeHint};

/// Pieces are gathered into frames of about this size.
const FRAME: usize = 64 * 1024;

/// The body of an answer.
pub struct Body(Content);

enum Content {
    Pieces(VecDeque<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    /// Returns a body of one piece.
    #[must_use]
    pub fn full(bytes: Bytes) -> Body {
        Body::pieces(VecDeque::from([bytes]))
    }

    /// Returns a body of many pieces, which are sent one after the other.
    #[must_use]
    pub fn pieces(pieces: VecDeque<Bytes>) -> Body {
        Body(Content::Pieces(pieces))
    }

    /// Returns a body that goes on until its stream ends.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body(Content::Stream(Box::pin(stream)))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Content::Pieces(pieces) => write!(out, "Body({} pieces)", pieces.len()),
            Content::Stream(_) => out.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Content::Pieces(pieces) => Poll::Ready(gather(pieces).map(|frame| Ok(Frame::data(frame)))),
            Content::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Pieces(pieces) if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

fn gather(pieces: &mut VecDeque<Bytes>) -> Option<Bytes> {
    let first = pieces.pop_front()?;
    if pieces.is_empty() || first.len() >= FRAME {
        return Some(first);
    }
    let mut frame = BytesMut::with_capacity(FRAME);
    frame.extend_from_slice(&first);
    while let Some(next) = pieces.front()
        && frame.len() + next.len() <= FRAME
    {
        frame.extend_from_slice(next);
        pieces.pop_front();
    }
    Some(frame.freeze())
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn pieces_arrive_in_order_and_in_few_frames() {
        let pieces: VecDeque<Bytes> = (0..10_000).map(|number| Bytes::from(format!("{number},"))).collect();
        let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
        let body = Body::pieces(pieces);
        assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
        assert_eq!(body.collect().await.unwrap().to_bytes(), whole);
        let mut body = Body::full(Bytes::from_static(b"x"));
        assert!(body.frame().await.is_some());
        assert!(body.is_end_stream());
    }
}
