//! Limits how many requests the agent sends to the API server, for any purpose. Requests wait in
//! the order in which they come, and none fails because of it.

use crate::shared::status::ApiFigures;
use epguard_core::bucket::Bucket;
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// A longer wait is logged.
const LONG: Duration = Duration::from_secs(1);

/// At most one such log line in this time.
const QUIET: Duration = Duration::from_mins(1);

/// The pace of one agent, and how long its requests have waited. Clones share it.
#[derive(Debug, Clone)]
pub struct Pace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// Locked while waiting: later requests wait for the lock.
    limit: Mutex<Limit>,
    requests: AtomicU64,
    waited_us: AtomicU64,
}

#[derive(Debug)]
struct Limit {
    bucket: Bucket,
    warned: Option<Instant>,
}

impl Pace {
    /// Permits `rate` requests a second, and `burst` at once after a pause. Neither may be 0.
    pub fn new(rate: u32, burst: u32) -> Self {
        let bucket = Bucket::new(Duration::from_secs(1) / rate.max(1), burst.max(1));
        Self(Arc::new(Shared {
            began: Instant::now(),
            limit: Mutex::new(Limit {
                bucket,
                warned: None,
            }),
            requests: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        }))
    }

    /// The client, limited to this pace. A watch is one request, however long it is open.
    pub fn client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let pace = self.clone();
        let service = tower::service_fn(move |request| {
            let client = client.clone();
            let pace = pace.clone();
            async move {
                pace.wait().await;
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    /// The number of requests and their waits since the agent's start.
    pub fn figures(&self) -> ApiFigures {
        ApiFigures {
            requests: self.0.requests.load(Relaxed),
            throttled_us: self.0.waited_us.load(Relaxed),
        }
    }

    /// Returns when it is the caller's turn. A caller that is cancelled while it waits has used no
    /// request.
    async fn wait(&self) {
        let asked = Instant::now();
        let mut limit = self.0.limit.lock().await;
        while !limit.bucket.take(self.0.began.elapsed()) {
            sleep(limit.bucket.wait(self.0.began.elapsed())).await;
        }
        let waited = asked.elapsed();
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.0.requests.fetch_add(1, Relaxed);
        self.0.waited_us.fetch_add(us, Relaxed);
        if waited > LONG && limit.warned.is_none_or(|warned| warned.elapsed() >= QUIET) {
            limit.warned = Some(Instant::now());
            tracing::warn!(
                waited_ms = waited.as_millis(),
                "a request to the API server waited for its turn: see epguard_api_throttled_seconds_total; if that keeps \
                 growing, raise --api-rate or --api-burst"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::{Request, Response};
    use std::convert::Infallible;
    use tokio::time::timeout;

    /// A client at 5 requests a second and 3 at once. Its server answers with the milliseconds
    /// since the start.
    fn paced() -> (Pace, Client) {
        let began = Instant::now();
        let server = tower::service_fn(move |_: Request<kube::client::Body>| async move {
            let at = began.elapsed().as_millis().to_string();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(at))))
        });
        let pace = Pace::new(5, 3);
        let client = pace.client(Client::new(server, "default"));
        (pace, client)
    }

    async fn ask(client: &Client) -> u64 {
        let request = Request::get("/").body(Vec::new()).unwrap();
        client.request_text(request).await.unwrap().parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_burst_requests_are_sent_one_by_one_in_their_order() {
        let (pace, client) = paced();
        let answers = futures::future::join_all((0..6).map(|_| ask(&client))).await;
        assert_eq!(answers, [0, 0, 0, 200, 400, 600]);
        let figures = pace.figures();
        assert_eq!((figures.requests, figures.throttled_us), (6, 1_200_000));
        sleep(Duration::from_mins(1)).await;
        let answers = futures::future::join_all((0..4).map(|_| ask(&client))).await;
        assert_eq!(answers, [60_600, 60_600, 60_600, 60_800]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_frees_its_turn_for_the_next() {
        let (pace, client) = paced();
        futures::future::join_all((0..3).map(|_| ask(&client))).await;
        let impatient = timeout(Duration::from_millis(100), ask(&client)).await;
        assert!(impatient.is_err());
        assert_eq!(ask(&client).await, 200);
        assert_eq!(pace.figures().requests, 4);
    }
}
