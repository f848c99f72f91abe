//! The HTTP server: one request a connection, answered from the status of the moment.

use super::{health, text};
use crate::maps;
use crate::status::{Question, Request, Status};
use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// A loop that takes longer to answer is stuck: it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest life of a connection.
const CONNECTION: Duration = Duration::from_secs(15);

/// Connections at a time; more wait.
const AT_ONCE: usize = 16;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

type Answer = Response<Full<Bytes>>;

/// Binds the address, so that one in use is known before anything is attached. Errors name the remedy.
pub async fn bind(listen: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot serve metrics on {listen}: choose another --metrics-listen"))
}

/// Serves for ever.
pub async fn serve(listener: TcpListener, pin_dir: PathBuf, ask: mpsc::Sender<Question>) -> Result<()> {
    let asked = Arc::new(Asked { pin_dir, ask });
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let room = Arc::clone(&room).acquire_owned().await?;
        match listener.accept().await {
            Ok((stream, _)) => {
                let asked = Arc::clone(&asked);
                tokio::spawn(async move {
                    let _ = timeout(CONNECTION, connection(stream, asked)).await;
                    drop(room);
                });
            }
            // Out of file descriptors, or the client is gone again: the next one may do better.
            Err(error) => {
                tracing::warn!("cannot accept a reader of metrics: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Asked {
    pin_dir: PathBuf,
    ask: mpsc::Sender<Question>,
}

async fn connection(stream: TcpStream, asked: Arc<Asked>) -> hyper::Result<()> {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let asked = Arc::clone(&asked);
        async move { Ok::<_, Infallible>(answer(&request, &asked).await) }
    });
    http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: &hyper::Request<Incoming>, asked: &Asked) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text_answer(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into());
    }
    let status = match request.uri().path() {
        "/metrics" | "/healthz" | "/readyz" => asked.status().await,
        _ => {
            let known = "there is /metrics, /healthz and /readyz\n";
            return text_answer(StatusCode::NOT_FOUND, known.into());
        }
    };
    match (request.uri().path(), status) {
        (_, None) => {
            let stuck = format!("the agent's loop did not answer in {PATIENCE:?}\n");
            text_answer(StatusCode::SERVICE_UNAVAILABLE, stuck)
        }
        ("/healthz", Some(_)) => text_answer(StatusCode::OK, "ok\n".into()),
        ("/readyz", Some(status)) => readyz(&status),
        (_, Some(status)) => metrics(&status, &asked.pin_dir),
    }
}

fn readyz(status: &Status) -> Answer {
    let checks = health::readiness(status);
    let ready = checks.iter().all(|check| check.failure.is_none());
    let lines: Vec<String> = checks.iter().map(ToString::to_string).collect();
    let code = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
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

impl Asked {
    /// None if the main loop does not answer in time.
    async fn status(&self) -> Option<Status> {
        let (answer, status) = oneshot::channel();
        let request = Request::Figures;
        let asked = async {
            self.ask.send(Question { request, answer }).await.ok()?;
            status.await.ok()
        };
        timeout(PATIENCE, asked).await.ok()?
    }
}
