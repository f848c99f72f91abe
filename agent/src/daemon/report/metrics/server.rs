//! The HTTP server: one request per connection, answered from the current status.
//!
//! `/readyz`: does the agent do its work? `/healthz` asks only if the main loop answers, since a restart helps against
//! nothing else: not against an unreachable API server, nor against an interface that cannot be hooked.

use super::text;
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
        return text_answer(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    match (&served.pages, request.uri().path()) {
        (Pages::Metrics(pin_dir), "/metrics") => {
            served.ask(Request::Figures, |status| metrics(status, pin_dir)).await
        }
        (Pages::Health, "/healthz") => {
            served.ask(Request::Alive, |_| text_answer(StatusCode::OK, "ok\n")).await
        }
        (Pages::Health, "/readyz") => served.ask(Request::Ready, readyz).await,
        (Pages::Metrics(_), _) => text_answer(StatusCode::NOT_FOUND, "there is /metrics\n"),
        (Pages::Health, _) => text_answer(StatusCode::NOT_FOUND, "there is /healthz and /readyz\n"),
    }
}

fn readyz(status: &Status) -> Answer {
    let checks = readiness(status);
    let is_ready = checks.iter().all(|(_, failure)| failure.is_none());
    let lines: Vec<String> = checks.iter().map(line).collect();
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    text_answer(code, lines.join("\n") + "\n")
}

fn metrics(status: &Status, pin_dir: &Path) -> Answer {
    let rendered = maps::counters(pin_dir).and_then(|counters| Ok(text::render(status, counters)?));
    match rendered {
        Ok(text) => typed(StatusCode::OK, OPEN_METRICS, text),
        Err(error) => text_answer(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")),
    }
}

fn text_answer(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(code, TEXT, text)
}

fn typed(code: StatusCode, kind: HeaderValue, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

impl Served {
    /// Asks the main loop, and shows the status that it answers with.
    async fn ask(&self, request: Request, show: impl FnOnce(&Status) -> Answer) -> Answer {
        let (answer, status) = oneshot::channel();
        let asked = async {
            self.ask.send(Question { request, answer }).await.ok()?;
            status.await.ok()
        };
        if let Ok(Some(status)) = timeout(PATIENCE, asked).await {
            return show(&status);
        }
        let stuck = format!("the agent's loop did not answer in {PATIENCE:?}\n");
        text_answer(StatusCode::SERVICE_UNAVAILABLE, stuck)
    }
}

/// A condition of readiness: `sync`, `hooks` or `lease`, and why it does not hold; none if it does.
type Check = (&'static str, Option<String>);

/// The condition in the format of the API server's own `/readyz?verbose`.
fn line((name, failure): &Check) -> String {
    match failure {
        None => format!("[+]{name} ok"),
        Some(why) => format!("[-]{name} failed: {why}"),
    }
}

/// The conditions of readiness: everything was listed, every selected interface is hooked, and denials are under a
/// lease.
fn readiness(status: &Status) -> [Check; 3] {
    let down = status.watches.iter().filter(|(_, watch)| !watch.up);
    let down: Vec<&str> = down.map(|(name, _)| name.into()).collect();
    let unsynced = (!status.synced).then(|| match &down[..] {
        [] => "everything is listed anew".to_owned(),
        down => format!("not listed yet: {}", down.join(", ")),
    });
    let interfaces = status.interfaces.iter();
    let mut bare = interfaces.filter(|at| !at.attached && !at.waiting);
    let unhooked = bare.next().map(|at| {
        let why = at.error.as_deref().unwrap_or("not attached");
        format!("{}: {why}", at.name)
    });
    let ended = (status.denies() && status.lease_ms <= 0).then(|| {
        let age = status.view_age_ms.map(|ms| format!("{} s", ms / 1000));
        let age = age.as_deref().unwrap_or("unknown");
        format!("the view is too old ({age}), so nothing is denied")
    });
    [("sync", unsynced), ("hooks", unhooked), ("lease", ended)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::{Attachment, Watch};
    use epguard_core::facts::Watched;
    use epguard_core::state::IpState;

    fn ready() -> Status {
        let mut status = Status {
            synced: true,
            lease_ms: -1,
            view_age_ms: Some(31_000),
            interfaces: vec![Attachment { name: "eth0".into(), attached: true, ..Attachment::default() }],
            ..Status::default()
        };
        status.watches.insert(Watched::Pods, Watch::default());
        status
    }

    fn lines(status: &Status) -> Vec<String> {
        readiness(status).iter().map(line).collect()
    }

    #[test]
    fn an_agent_that_denies_nothing_is_ready_without_a_lease() {
        assert_eq!(lines(&ready()), ["[+]sync ok", "[+]hooks ok", "[+]lease ok"]);
    }

    #[test]
    fn an_agent_is_ready_while_an_interface_waits_for_the_cni() {
        let mut status = ready();
        let waiting = Attachment { waiting: true, ..Attachment::default() };
        status.interfaces.push(waiting);
        assert_eq!(lines(&status)[1], "[+]hooks ok");
    }

    #[test]
    fn each_failure_names_the_missing_part() {
        let mut status = ready();
        status.synced = false;
        status.interfaces[0].attached = false;
        status.figures.ips.insert(IpState::Terminated, 1);
        assert_eq!(
            lines(&status),
            [
                "[-]sync failed: not listed yet: pods",
                "[-]hooks failed: eth0: not attached",
                "[-]lease failed: the view is too old (31 s), so nothing is denied",
            ]
        );
        status.lease_ms = 1;
        assert_eq!(lines(&status)[2], "[+]lease ok");
    }
}
