//! A body of many parts.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Octets that are copied together at once.
const PIECE: usize = 64 * 1024;

/// Parts that are copied together only as they are sent: a list of 600 MB needs no second 600 MB. Its length is known.
pub(super) struct Joined {
    parts: vec::IntoIter<Bytes>,
    left: u64,
}

impl Joined {
    pub(super) fn new(parts: Vec<Bytes>) -> Self {
        let left = parts.iter().map(|part| part.len() as u64).sum();
        let parts = parts.into_iter();
        Self { parts, left }
    }
}

impl Body for Joined {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE
            && let Some(part) = self.parts.next()
        {
            piece.extend_from_slice(&part);
        }
        self.left -= piece.len() as u64;
        let frame = (!piece.is_empty()).then(|| Ok(Frame::data(piece.into())));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn parts_arrive_in_their_order_and_the_length_is_known_from_the_start() {
        let parts: Vec<Bytes> = (0..100_u8).map(|part| vec![part; 2_000].into()).collect();
        let whole = parts.concat();
        let mut body = Joined::new(parts);
        assert_eq!(body.size_hint().exact(), Some(200_000));
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() < 200_000, "one piece");
        assert_eq!(body.size_hint().exact(), Some(200_000 - first.len() as u64));
        let rest = body.collect().await.unwrap().to_bytes();
        assert_eq!([first, rest].concat(), whole);
    }
}
