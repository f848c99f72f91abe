//! The way from the agents to the API server, its faults, and the meter on it.

use super::answer::{Answer, Sent};
use super::asked::Asked;
use super::capacity::{Capacity, EACH};
use super::meter::Meter;
use epguard_lab::api::{ApiError, Direct, Store};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use kube::{Client, client};
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// After this time a request without an answer gets 504, as by default.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// How the API server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Healthy,
    /// Connections are refused.
    Away,
    /// Of four requests, two get 429 and one times out.
    Overloaded,
}

pub(crate) struct Network {
    api: Direct,
    nodes: u32,
    pub(crate) capacity: Capacity,
    pub(crate) meter: Meter,
    condition: watch::Sender<Condition>,
    /// Counts breaks of all connections.
    breaks: watch::Sender<u32>,
}

impl Network {
    pub(crate) fn new(store: Store, nodes: u32) -> Arc<Self> {
        Arc::new(Self {
            api: Direct::new(store),
            nodes,
            capacity: Capacity::new(),
            meter: Meter::default(),
            condition: watch::Sender::new(Condition::Healthy),
            breaks: watch::Sender::new(0),
        })
    }

    /// A client of its own name.
    pub(crate) fn client(self: &Arc<Self>, name: &str) -> Client {
        let name = HeaderValue::try_from(name).unwrap();
        let network = Arc::clone(self);
        let service = tower::service_fn(move |mut request: Request<client::Body>| {
            request.headers_mut().insert(USER_AGENT, name.clone());
            Arc::clone(&network).send(request)
        });
        Client::new(service, "default")
    }

    pub(crate) fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }

    /// Breaks all connections.
    pub(crate) fn cut(&self) {
        self.breaks.send_modify(|breaks| *breaks += 1);
    }

    async fn send(self: Arc<Self>, request: Request<client::Body>) -> Result<Response<Sent>, Error> {
        let mut breaks = self.breaks.subscribe();
        let answer = self.clone().answer(request, self.breaks.subscribe());
        tokio::select! {
            biased;
            _ = breaks.changed() => Err(ErrorKind::ConnectionReset.into()),
            answer = answer => answer,
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<client::Body>,
        breaks: watch::Receiver<u32>,
    ) -> Result<Response<Sent>, Error> {
        let asked = Asked::of(request.uri());
        let condition = *self.condition.borrow();
        if condition == Condition::Away {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        self.meter.request(&asked);
        match fastrand::u8(0..4) {
            0 | 1 if condition == Condition::Overloaded => return Ok(self.refuse()),
            2 if condition == Condition::Overloaded => {
                sleep(REQUEST_TIMEOUT).await;
                return Ok(failure(504, "Timeout"));
            }
            _ => {}
        }
        let Some(seats) = self.capacity.enter(asked.seats(self.nodes)).await else {
            return Ok(self.refuse());
        };
        sleep(EACH).await;
        let (parts, body) = self.api.send(request).await.into_parts();
        let seats = Some(seats).filter(|_| !asked.is_watch || asked.is_streamed_list());
        let answer = Answer {
            body: Box::pin(body),
            asked,
            network: Arc::clone(&self),
            seats,
            breaks,
            over: false,
        };
        Ok(Response::from_parts(parts, answer.into_body()))
    }

    fn refuse(&self) -> Response<Sent> {
        self.meter.refused();
        failure(429, "TooManyRequests")
    }
}

fn failure(code: u16, reason: &'static str) -> Response<Sent> {
    let status = ApiError::new(code, reason, "too busy").status().to_string();
    let body = Full::new(Bytes::from(status)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = code.try_into().unwrap();
    response
}
