//! The HTTP server: one request per connection, answered from the current status.

use super::{health, text};
use crate::kernel::maps;
use crate::shared::status::{Question, Request, Status};
use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Longest wait for the main loop: it answers within milliseconds, so one that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time until a client has sent its request.
const HEADER: Duration = Duration::from_secs(5);

/// Longest life of a connection.
const CONNECTION: Duration = Duration::from_secs(15);

/// Most open connections of one listener. A further one closes the oldest, so that silent clients do not block
/// others.
const AT_ONCE: usize = 64;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

type Answer = Response<Full<Bytes>>;

/// What an address serves.
#[derive(Debug)]
pub enum Pages {
    /// `/metrics`, with the kernel's counters from this pin directory.
    Metrics(PathBuf),
    /// `/healthz` and `/readyz`.
    Health,
}

/// Binds the address, so that one in use is known before anything is attached. Errors name the remedy.
pub async fn bind(listen: SocketAddr, option: &str) -> Result<TcpListener> {
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}: choose another {option}"))
}

/// Serves connections and never returns. Each listener has its own connections, so a flood at one does not affect the
/// other.
pub async fn serve(listener: TcpListener, pages: Pages, ask: mpsc::Sender<Question>) -> Result<()> {
    let served = Arc::new(Served { pages, ask });
    let mut open = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = Arc::clone(&served);
                open.retain(|connection: &AbortHandle| !connection.is_finished());
                if open.len() >= AT_ONCE
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let connection = tokio::spawn(async move {
                    let _ = timeout(CONNECTION, connection(stream, served)).await;
                });
                open.push_back(connection.abort_handle());
            }
            // Out of file descriptors, or the client has disconnected: the next one may succeed.
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Served {
    pages: Pages,
    ask: mpsc::Sender<Question>,
}

async fn connection(stream: TcpStream, served: Arc<Served>) -> hyper::Result<()> {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let served = Arc::clone(&served);
        async move { Ok::<_, Infallible>(answer(&request, &served).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: &hyper::Request<Incoming>, served: &Served) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text_answer(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into());
    }
    match (&served.pages, request.uri().path()) {
        (Pages::Metrics(pin_dir), "/metrics") => match served.ask(Request::Figures).await {
            Some(status) => metrics(&status, pin_dir),
            None => stuck(),
        },
        (Pages::Health, "/healthz") => match served.ask(Request::Alive).await {
            Some(_) => text_answer(StatusCode::OK, "ok\n".into()),
            None => stuck(),
        },
        (Pages::Health, "/readyz") => match served.ask(Request::Ready).await {
            Some(status) => readyz(&status),
            None => stuck(),
        },
        (pages, _) => text_answer(
            StatusCode::NOT_FOUND,
            match pages {
                Pages::Metrics(_) => "there is /metrics\n".into(),
                Pages::Health => "there is /healthz and /readyz\n".into(),
            },
        ),
    }
}

fn stuck() -> Answer {
    let stuck = format!("the agent's loop did not answer in {PATIENCE:?}\n");
    text_answer(StatusCode::SERVICE_UNAVAILABLE, stuck)
}

fn readyz(status: &Status) -> Answer {
    let checks = health::readiness(status);
    let ready = checks.iter().all(|(_, failure)| failure.is_none());
    let lines: Vec<String> = checks.iter().map(health::line).collect();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    text_answer(code, lines.join("\n") + "\n")
}

fn metrics(status: &Status, pin_dir: &Path) -> Answer {
    let rendered = maps::counters(pin_dir).and_then(|counters| Ok(text::render(status, counters)?));
    match rendered {
        Ok(text) => typed(StatusCode::OK, OPEN_METRICS, text),
        Err(error) => text_answer(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")),
    }
}

fn text_answer(code: StatusCode, text: String) -> Answer {
    typed(code, TEXT, text)
}

fn typed(code: StatusCode, kind: HeaderValue, text: String) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

impl Served {
    /// Asks the main loop. None if it does not answer in time.
    async fn ask(&self, request: Request) -> Option<Status> {
        let (answer, status) = oneshot::channel();
        let asked = async {
            self.ask.send(Question { request, answer }).await.ok()?;
            status.await.ok()
        };
        timeout(PATIENCE, asked).await.ok()?
    }
}
