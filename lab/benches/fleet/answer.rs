//! The body of an answer: passes the link, and breaks with the connection.

use super::asked::Asked;
use super::capacity::Seats;
use super::network::Network;
use futures::stream;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch::Receiver;

/// What the bookmark after a streamed list contains.
const LISTED: &[u8] = b"k8s.io/initial-events-end";
/// How the last line of a watch begins that the API server ends with an error.
const ERROR: &[u8] = b"{\"type\":\"ERROR\"";

pub(crate) type Sent = UnsyncBoxBody<Bytes, Error>;

/// An answer on its way.
pub(crate) struct Answer<B> {
    pub(crate) body: Pin<Box<B>>,
    pub(crate) asked: Asked,
    pub(crate) network: Arc<Network>,
    /// Held until the list is sent.
    pub(crate) seats: Option<Seats>,
    /// Counts breaks of the connection.
    pub(crate) breaks: Receiver<u32>,
    /// True once the server has ended it.
    pub(crate) over: bool,
}

impl<B: Body<Data = Bytes, Error = Infallible> + Send + 'static> Answer<B> {
    pub(crate) fn into_body(self) -> Sent {
        let frames = stream::unfold(self, |mut answer| async { Some((answer.next().await?, answer)) });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Error>> {
        if self.over {
            return None;
        }
        let sent = async {
            let data = self
                .body
                .frame()
                .await?
                .unwrap_or_else(|never| match never {})
                .into_data()
                .ok()?;
            self.network.capacity.send(data.len()).await;
            Some(data)
        };
        let data = tokio::select! {
            biased;
            _ = self.breaks.changed() => {
                self.over = true;
                if self.asked.is_watch {
                    self.network.meter.broken();
                }
                return Some(Err(ErrorKind::ConnectionReset.into()));
            }
            data = sent => data,
        };
        let Some(data) = data else {
            self.over = true;
            return None;
        };
        if self.seats.is_some() && self.asked.is_watch && is_end_of_list(&data) {
            self.seats = None;
        }
        self.over = data.starts_with(ERROR);
        self.network.meter.octets(data.len());
        Some(Ok(Frame::data(data)))
    }
}

fn is_end_of_list(line: &Bytes) -> bool {
    line.len() < 1_000 && line.windows(LISTED.len()).any(|part| part == LISTED)
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        if !self.over && self.asked.is_watch && !self.asked.is_probe() {
            self.network.meter.ended();
        }
    }
}
