//! The unix socket `<run-dir>/status.sock`: each connection gets one JSON document, then the end of
//! file.

use super::Status;
use crate::shared::run_dir::SOCKET;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

/// Longest time for one connection; it is then closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request that a client may write to the socket, as JSON in one line, before it reads the
/// status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// The status, also for an empty or unknown line.
    Status,
    /// The status without the names of pods and Services, which are many.
    Figures,
    /// Only what readiness depends on.
    Ready,
    /// An empty status, which shows only that the main loop answers.
    Alive,
    /// Carry out the stopped denials of a Service, `namespace/name`, or of all if the name is
    /// empty; then the status.
    ReleaseBreaker(String),
    /// Only the packets that were denied, or would have been.
    Drops,
    /// Only the last lines of the agent's log.
    Log,
    /// Only the history of the IP.
    History(IpAddr),
}

impl Request {
    /// Asks the main loop; none if it has ended.
    pub async fn ask(self, main_loop: &mpsc::Sender<Question>) -> Option<Status> {
        let (answer, status) = oneshot::channel();
        main_loop
            .send(Question {
                request: self,
                answer,
            })
            .await
            .ok()?;
        status.await.ok()
    }
}

/// A request to the main loop, with a channel for the answer.
#[derive(Debug)]
pub struct Question {
    /// What to do before the status is read.
    pub request: Request,
    /// The channel for the status.
    pub answer: oneshot::Sender<Status>,
}

/// Longest wait for a request. Without one by then, the status is sent: a client that only reads
/// may leave its writing half open. On a busy node a client may wait for the processor between its
/// connection and its request.
const TO_ASK: Duration = Duration::from_secs(2);

/// Longest request, octets.
const MAX_REQUEST: u64 = 1024;

/// Answers each connection with the status, without end. Replaces a socket that an earlier agent
/// left, without a gap.
///
/// Only root may connect. Errors: the directory or the socket cannot be made.
pub async fn serve(run_dir: &Path, ask: mpsc::Sender<Question>) -> anyhow::Result<()> {
    let listener = bind(run_dir)?;
    loop {
        let Some((stream, _)) = accepted(listener.accept().await, "a status reader").await else {
            continue;
        };
        let ask = ask.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(PATIENCE, answer(stream, &ask)).await {
                Ok(Err(error)) => tracing::debug!("status reader left: {error:#}"),
                Err(_) => tracing::debug!("status reader is too slow"),
                Ok(Ok(())) => {}
            }
        });
    }
}

/// An accepted connection; none after a pause. Out of file descriptors, or if the client has
/// disconnected, the next one may succeed.
pub async fn accepted<T>(connection: io::Result<T>, what: &str) -> Option<T> {
    if let Err(error) = &connection {
        tracing::warn!("cannot accept {what}: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    connection.ok()
}

/// The running agent's status. Blocks; errors name the socket and the remedy.
pub fn current(run_dir: &Path) -> anyhow::Result<Status> {
    ask(run_dir, &Request::Status)
}

/// Sends a request to the running agent and returns its status afterwards. Blocks; errors as of
/// [`current`].
pub fn ask(run_dir: &Path, request: &Request) -> anyhow::Result<Status> {
    let path = socket(run_dir);
    let mut document = vec![];
    std::os::unix::net::UnixStream::connect(&path)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            serde_json::to_writer(&mut stream, request)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            stream.read_to_end(&mut document)
        })
        .with_context(|| {
            let path = path.display();
            format!("no agent answers at {path}: run this as root on a node where epguard agent runs, with its --run-dir")
        })?;
    serde_json::from_slice(&document).with_context(|| {
        let path = path.display();
        format!("{path} does not send this version's status: use the epguard binary of the running agent")
    })
}

fn socket(run_dir: &Path) -> PathBuf {
    run_dir.join(SOCKET)
}

/// Makes the socket under another name and renames it: so a socket always exists, and never has
/// other permissions.
fn bind(run_dir: &Path) -> anyhow::Result<UnixListener> {
    let path = socket(run_dir);
    let aside = run_dir.join(format!("status.{}.sock", std::process::id()));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(run_dir)
        .and_then(|()| match fs::remove_file(&aside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => UnixListener::bind(&aside),
        })
        .and_then(|listener| {
            fs::set_permissions(&aside, Permissions::from_mode(0o600))?;
            fs::rename(&aside, &path)?;
            Ok(listener)
        })
        .with_context(|| format!("cannot make {}: is --run-dir writable?", path.display()))
}

async fn answer(mut stream: UnixStream, ask: &mpsc::Sender<Question>) -> anyhow::Result<()> {
    let mut line = String::new();
    let mut written = BufReader::new((&mut stream).take(MAX_REQUEST));
    let _ = tokio::time::timeout(TO_ASK, written.read_line(&mut line)).await;
    let request = serde_json::from_str(&line).unwrap_or(Request::Status);
    let status = request.ask(ask).await.context("the main loop has ended")?;
    stream.write_all(&serde_json::to_vec(&status)?).await?;
    Ok(stream.shutdown().await?)
}

#[cfg(test)]
mod tests {
    use super::super::testing::ailing;
    use super::super::{Cause, Gap, LatencyFigures, ModeSource, Ranges, Translators, Watch};
    use super::*;
    use epguard_common::{Mode, Reason};
    use epguard_core::facts::Watched;
    use tempfile::tempdir;

    fn status() -> Status {
        let mut status = Status {
            version: "0.1.0".into(),
            node: "n".into(),
            mode_source: ModeSource::Flags,
            reasons: [(Reason::Reused, Mode::Observe)].into(),
            synced: true,
            mode: Some(Mode::Observe),
            ranges: Ranges {
                protect: vec!["10.244.0.0/16".into()],
                exclude: vec!["10.244.9.0/24".into()],
            },
            applied: [(Watched::Pods, 6)].into(),
            lease_ms: -5,
            view_age_ms: Some(7),
            pods: [("u-1".into(), "shop/cart-1".into())].into(),
            services: [("3".into(), "shop/cart".into())].into(),
            translators: Translators {
                conntrack: true,
                cilium: vec!["cilium_ct4_global".into()],
                gaps: vec![Gap {
                    cause: Cause::Flowtable,
                    detail: "filter/fast".into(),
                }],
            },
            latency: LatencyFigures {
                count: 1,
                last_us: 2,
                p50_us: 2,
                p99_us: 2,
                max_us: 2,
            },
            ..ailing()
        };
        status.interfaces[0].waiting = true;
        status.watches.insert(
            Watched::Nodes,
            Watch {
                up: true,
                ..Watch::default()
            },
        );
        status
    }

    async fn read_aside(run_dir: &Path) -> anyhow::Result<Status> {
        let run_dir = run_dir.to_owned();
        tokio::task::spawn_blocking(move || current(&run_dir))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_request_arrives_as_it_was_sent_and_any_other_line_asks_for_the_status() {
        use std::io::Write as _;
        let dir = tempdir().unwrap();
        let (ask, mut questions) = mpsc::channel::<Question>(1);
        let run_dir = dir.path().to_owned();
        let server = tokio::spawn(async move { serve(&run_dir, ask).await });
        while !socket(dir.path()).exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let requests = [
            Request::ReleaseBreaker("shop/web".into()),
            Request::History(IpAddr::from([10, 0, 0, 1])),
            Request::Drops,
        ];
        let lines = requests
            .clone()
            .map(|request| serde_json::to_string(&request).unwrap());
        let others = ["", "\n", "[{\n", "{\"history\": \"nonsense\"}\n"]
            .map(|line| (line.to_owned(), Request::Status));
        for (line, request) in lines.into_iter().zip(requests).chain(others) {
            let mut stream = std::os::unix::net::UnixStream::connect(socket(dir.path())).unwrap();
            stream.write_all(line.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(questions.recv().await.unwrap().request, request, "{line:?}");
        }
        server.abort();
    }

    /// Serves one status until the client has an answer; connecting needs no wait, since `bind`
    /// comes first.
    async fn serve_and_read(run_dir: &Path, status: &Status) -> anyhow::Result<Status> {
        let (ask, mut questions) = mpsc::channel::<Question>(1);
        let answers = async {
            while let Some(question) = questions.recv().await {
                question.answer.send(status.clone()).unwrap();
            }
        };
        tokio::select! {
            biased;
            served = serve(run_dir, ask) => panic!("{served:?}"),
            () = answers => panic!("nobody asks any more"),
            status = read_aside(run_dir) => status,
        }
    }

    #[tokio::test]
    async fn a_socket_that_a_dead_agent_left_is_replaced_and_its_owner_alone_reads_the_whole_current_status()
     {
        let dir = tempdir().unwrap();
        drop(std::os::unix::net::UnixListener::bind(socket(dir.path())).unwrap());
        let error = format!("{:#}", current(dir.path()).unwrap_err());
        assert!(
            error.contains("no agent answers at") && error.contains("--run-dir"),
            "{error}"
        );
        for mode in [Mode::Observe, Mode::Enforce] {
            let current = Status {
                mode: Some(mode),
                ..status()
            };
            assert_eq!(serve_and_read(dir.path(), &current).await.unwrap(), current);
        }
        let mode = fs::metadata(socket(dir.path()))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_run_directory_that_cannot_be_made_is_named_with_the_remedy() {
        let (ask, _questions) = mpsc::channel(1);
        let error = serve(Path::new("/dev/null/epguard"), ask)
            .await
            .unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("/dev/null/epguard/status.sock: is --run-dir writable?"),
            "{error}"
        );
    }

    #[test]
    fn a_document_of_a_newer_form_is_refused_by_its_number() {
        let mut document = serde_json::to_value(status()).unwrap();
        assert!(serde_json::from_value::<Status>(document.clone()).is_ok());
        document["form"] = 4.into();
        let error = serde_json::from_value::<Status>(document).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its form is 4, and this epguard reads 3 at most"
        );
    }
}
