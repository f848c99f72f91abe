//! `/metrics` over HTTP, in the text format that a client asks for, and, at an address of their own,
//! `/healthz` and `/readyz`.
//!
//! Nothing is counted here twice: a metric is a figure of the [`Status`], asked of the main loop,
//! or a number in the kernel's COUNTERS. Names of pods and Services are in the log and in the
//! status.
//!
//! `/readyz`: does the agent do its work? `/healthz` asks only if the main loop answers, since a
//! restart helps against nothing else: not against an unreachable API server, nor against an
//! interface that cannot be hooked.

mod encode;
mod format;
mod process;
mod text;
mod timings;

pub use format::Format;
pub use process::Process;
pub use text::render;
pub use timings::Timings;

use crate::kernel::maps;
use crate::shared::status::{Question, Request, Status, accepted};
use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, VARY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Longest wait for a client's request, and for the main loop: it answers within milliseconds, so
/// one that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest life of a connection.
const CONNECTION: Duration = Duration::from_secs(15);

/// Most open connections of one listener. A further one closes the oldest, so that silent clients
/// do not block others.
const AT_ONCE: usize = 64;

const TEXT: &str = "text/plain; charset=utf-8";

/// What an address serves.
#[derive(Debug, Clone)]
pub enum Pages {
    /// `/metrics`, with the kernel's counters from this pin directory.
    Metrics(PathBuf),
    /// `/healthz` and `/readyz`.
    Health,
}

/// Binds the address, so that one in use is known before anything is attached. Errors name the
/// remedy.
pub async fn bind(listen: SocketAddr, option: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(listen).await;
    listener.with_context(|| format!("cannot listen on {listen}: choose another {option}"))
}

/// Serves connections and never returns. Each listener has its own connections, so a flood at one
/// does not affect the other.
pub async fn serve(listener: TcpListener, pages: Pages, ask: mpsc::Sender<Question>) -> Result<()> {
    let mut open = VecDeque::new();
    loop {
        let Some((stream, _)) = accepted(listener.accept().await, "a connection").await else {
            continue;
        };
        open.retain(|connection: &AbortHandle| !connection.is_finished());
        if open.len() >= AT_ONCE
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let pages = pages.clone();
        let ask = ask.clone();
        let service = service_fn(move |request| answer(request, pages.clone(), ask.clone()));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        open.push_back(tokio::spawn(timeout(CONNECTION, connection)).abort_handle());
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    pages: Pages,
    ask: mpsc::Sender<Question>,
) -> hyper::http::Result<Response<Full<Bytes>>> {
    let format = Format::accepted(request.headers());
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (code, text) = match (&pages, request.uri().path()) {
        _ if !is_read => (
            StatusCode::METHOD_NOT_ALLOWED,
            "there is GET and HEAD\n".to_owned(),
        ),
        (Pages::Metrics(pin_dir), "/metrics") => {
            asked(ask, Request::Figures, |status| {
                metrics(status, pin_dir, format)
            })
            .await
        }
        (Pages::Health, "/healthz") => {
            asked(ask, Request::Alive, |_| (StatusCode::OK, "ok\n".to_owned())).await
        }
        (Pages::Health, "/readyz") => asked(ask, Request::Ready, readyz).await,
        (Pages::Metrics(_), _) => (StatusCode::NOT_FOUND, "there is /metrics\n".to_owned()),
        (Pages::Health, _) => (
            StatusCode::NOT_FOUND,
            "there is /healthz and /readyz\n".to_owned(),
        ),
    };
    let kind = if matches!((&pages, code), (Pages::Metrics(_), StatusCode::OK)) {
        format.content_type()
    } else {
        TEXT
    };
    Response::builder()
        .status(code)
        .header(CONTENT_TYPE, kind)
        .header(VARY, "Accept")
        .header(ALLOW, "GET, HEAD")
        .body(text.into())
}

/// Asks the main loop, and shows the status that it answers with.
async fn asked(
    ask: mpsc::Sender<Question>,
    request: Request,
    show: impl FnOnce(&Status) -> (StatusCode, String),
) -> (StatusCode, String) {
    let status = timeout(PATIENCE, request.ask(&ask)).await.ok().flatten();
    match &status {
        Some(status) => show(status),
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the agent's loop did not answer in {PATIENCE:?}\n"),
        ),
    }
}

fn metrics(status: &Status, pin_dir: &Path, format: Format) -> (StatusCode, String) {
    let process = match Process::read() {
        Ok(process) => Some(process),
        Err(error) => {
            tracing::debug!("no process_* metrics: {error:#}");
            None
        }
    };
    let counters = maps::counters(pin_dir);
    let rendered = counters.and_then(|counters| Ok(render(status, counters, process)?));
    match rendered {
        Ok(text) => (StatusCode::OK, format.write(text)),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")),
    }
}

/// A line for each condition, in the format of the API server's own `/readyz?verbose`: everything
/// was listed, every selected interface is hooked, and denials are under a lease.
fn readyz(status: &Status) -> (StatusCode, String) {
    let down = status.watches.iter().filter(|(_, watch)| !watch.up);
    let down: Vec<&str> = down.map(|(name, _)| name.into()).collect();
    let unsynced = (!status.synced).then(|| match &down[..] {
        [] => "everything is listed anew".to_owned(),
        down => format!("not listed yet: {}", down.join(", ")),
    });
    let bare = status
        .interfaces
        .iter()
        .find(|at| !at.attached && !at.waiting);
    let unhooked = bare.map(|at| {
        format!(
            "{}: {}",
            at.name,
            at.error.as_deref().unwrap_or("not attached")
        )
    });
    let ended = (status.denies() && status.lease_ms <= 0).then(|| {
        let age = status
            .view_age_ms
            .map_or_else(|| "unknown".to_owned(), |ms| format!("{} s", ms / 1000));
        format!("the view is too old ({age}), so nothing is denied")
    });
    let failures = [("sync", unsynced), ("hooks", unhooked), ("lease", ended)];
    let is_ready = failures.iter().all(|(_, failure)| failure.is_none());
    let lines = failures.map(|(name, failure)| {
        failure.map_or_else(
            || format!("[+]{name} ok\n"),
            |why| format!("[-]{name} failed: {why}\n"),
        )
    });
    (
        if is_ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        },
        lines.concat(),
    )
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
            interfaces: vec![Attachment {
                name: "eth0".into(),
                attached: true,
                ..Attachment::default()
            }],
            ..Status::default()
        };
        status.watches.insert(Watched::Pods, Watch::default());
        status
    }

    fn lines(status: &Status) -> Vec<String> {
        readyz(status).1.lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_agent_is_ready_without_a_lease_if_it_denies_nothing_and_while_an_interface_waits_for_the_cni()
     {
        let mut status = ready();
        status.interfaces.push(Attachment {
            waiting: true,
            ..Attachment::default()
        });
        for status in [ready(), status] {
            assert_eq!(lines(&status), ["[+]sync ok", "[+]hooks ok", "[+]lease ok"]);
        }
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
