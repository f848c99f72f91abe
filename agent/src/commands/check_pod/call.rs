//! The client: it waits until some targets answer, then counts its calls to others.

use super::serve::{ASK, END};
use crate::shared::args::seconds;
use crate::shared::calls::{CallCount, CallEnd, CallProtocol, CallReport, CallTarget};
use anyhow::{Context as _, Result};
use clap::Args;
use futures::future::join_all;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, sleep, timeout};

/// The longest wait for an answer. It is half of the second after which the kernel sends a SYN again
/// (`TCP_TIMEOUT_INIT`): so each call sends exactly one, even if this process has to wait for a
/// processor.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time between two calls to a target: answers to stopped packets are limited.
const PAUSE: Duration = Duration::from_millis(20);
/// Time between two calls to a target that does not answer yet.
const RETRY: Duration = Duration::from_millis(250);
/// The longest name that is read.
const NAME: usize = 64;
/// How many characters of an error are reported.
const ERROR: usize = 40;

/// Options of `epguard check-pod call`.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// What is called, as in TCP:10.96.0.10:8080; all at the same time
    targets: Vec<CallTarget>,
    /// How many calls are made to each target, one after the other
    #[arg(long, value_name = "COUNT", default_value = "10")]
    times: u32,
    /// Before that, call these until they answer; such calls are not counted
    #[arg(long = "await", value_name = "TARGET")]
    awaited: Vec<CallTarget>,
    /// Longest wait for these
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds(1..=600))]
    wait: Duration,
    /// Send this server the word that ends it, then report nothing
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["targets", "awaited"])]
    end: Option<CallTarget>,
    /// Where the report is written, beside standard output
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
}

/// Calls and reports. Errors: the report cannot be written, or the server to be ended does not
/// answer.
pub(super) async fn run(args: &CallArgs) -> Result<()> {
    if let Some(target) = args.end {
        let answer = timeout(PATIENCE, over_tcp(target, END)).await;
        answer
            .context("no answer")
            .and_then(|answer| Ok(answer?))
            .with_context(|| format!("{target} cannot be ended"))?;
        return Ok(());
    }
    let report = serde_json::to_string(&call_all(args).await)?;
    println!("{report}");
    if let Some(path) = &args.report {
        let written = File::create(path).and_then(|mut file| file.write_all(report.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

async fn call_all(args: &CallArgs) -> CallReport {
    let until = Instant::now() + args.wait;
    let waits = args.awaited.iter().map(|target| reach(*target, until));
    let reached = join_all(waits).await;
    let mut report = CallReport::default();
    for (target, is_reached) in args.awaited.iter().zip(reached) {
        if !is_reached {
            report.unreached.push(*target);
        }
    }
    if report.unreached.is_empty() {
        let calls = args.targets.iter();
        report.calls = join_all(calls.map(|target| count(*target, args.times))).await;
    }
    report
}

/// Calls a target until it answers. False if it has not until then.
async fn reach(target: CallTarget, until: Instant) -> bool {
    loop {
        if let CallEnd::Answered(_) = call(target).await {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(RETRY).await;
    }
}

/// Calls a target so often.
async fn count(target: CallTarget, times: u32) -> CallCount {
    let mut count = CallCount::new(target);
    for _ in 0..times {
        count.add(call(target).await);
        sleep(PAUSE).await;
    }
    count
}

/// Calls a target once, by a new socket.
async fn call(target: CallTarget) -> CallEnd {
    let answer = async {
        match target.protocol {
            CallProtocol::Tcp => over_tcp(target, ASK).await,
            CallProtocol::Udp => over_udp(target).await,
        }
    };
    match timeout(PATIENCE, answer).await {
        Ok(Ok(name)) => CallEnd::Answered(name),
        Ok(Err(error)) => end_of(&error),
        Err(_) => CallEnd::TimedOut,
    }
}

/// How a call ends that has this error.
fn end_of(error: &io::Error) -> CallEnd {
    match error.kind() {
        // Before Linux 6.1 a call that is refused at its socket fails with EPERM.
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::PermissionDenied => CallEnd::Refused,
        io::ErrorKind::TimedOut => CallEnd::TimedOut,
        _ => CallEnd::Failed(error.to_string().chars().take(ERROR).collect()),
    }
}

/// The answer to a line.
async fn over_tcp(target: CallTarget, line: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(target.address).await?;
    stream.write_all(format!("{line}\n").as_bytes()).await?;
    let mut answer = String::new();
    let mut stream = BufReader::new(stream).take(NAME as u64);
    if stream.read_line(&mut answer).await? == 0 {
        // Accepted and closed without a word: no RST has refused it.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.trim_end().to_owned())
}

/// The answer to one datagram.
async fn over_udp(target: CallTarget) -> io::Result<String> {
    let any: IpAddr = if target.address.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(target.address).await?;
    socket.send(ASK.as_bytes()).await?;
    let mut answer = [0; NAME];
    let length = socket.recv(&mut answer).await?;
    let name = String::from_utf8_lossy(&answer[..length]);
    Ok(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::serve::{self, ServeArgs};
    use super::*;
    use crate::shared::args::parsed;
    use tokio::task::LocalSet;

    async fn report(words: &[String]) -> CallReport {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        call_all(&parsed::<CallArgs>(&words).unwrap()).await
    }

    /// A port at which nothing listens now.
    async fn free_port() -> u16 {
        let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        taken.local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn each_call_is_counted_by_its_end_over_both_protocols_and_families() {
        let port = free_port().await.to_string();
        let serve: ServeArgs = parsed(&["--name", "web-1", "--port", &port]).unwrap();
        let tasks = LocalSet::new();
        let server = tasks.spawn_local(async move { serve::run(&serve).await });
        let calls = async {
            let at = ["127.0.0.1", "[::1]"]
                .map(|ip| CallProtocol::ALL.map(|protocol| format!("{protocol}:{ip}:{port}")))
                .concat();
            // A closed port refuses; the packets of no host are answered by nothing.
            let closed = ["TCP", "UDP"].map(|protocol| format!("{protocol}:127.0.0.1:1"));
            let mut words = vec!["--times=3".to_owned()];
            words.extend(at.iter().map(|target| format!("--await={target}")));
            words.extend(at.iter().chain(&closed).cloned());
            let report = report(&words).await;
            assert_eq!(report.unreached, []);
            for target in at {
                let count = report.to(&target.parse().unwrap()).unwrap();
                assert_eq!((count.sent, count.answered_by("web-1")), (3, 3), "{target}");
            }
            for target in closed {
                let count = report.to(&target.parse().unwrap()).unwrap();
                assert_eq!((count.sent, count.refused), (3, 3), "{target}");
            }
            let end = format!("--end=TCP:127.0.0.1:{port}");
            run(&parsed::<CallArgs>(&[&end]).unwrap()).await.unwrap();
        };
        tasks.run_until(calls).await;
        tasks.run_until(server).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_connection_that_is_closed_without_a_word_is_not_refused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("TCP:{}", listener.local_addr().unwrap());
        let words = ["--times=1".to_owned(), target.clone()];
        let closes = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut line = [0; 5];
            stream.read_exact(&mut line).await.unwrap();
        };
        let (report, ()) = tokio::join!(report(&words), closes);
        let count = report.to(&target.parse().unwrap()).unwrap();
        assert_eq!((count.refused, count.failed.len()), (0, 1), "{count:?}");
    }

    #[tokio::test]
    async fn a_server_answers_no_datagram_that_does_not_ask_for_its_name() {
        let port = free_port().await;
        let words = ["--name", "web-1", "--port", &port.to_string()];
        let serve: ServeArgs = parsed(&words).unwrap();
        let tasks = LocalSet::new();
        tasks.spawn_local(async move { serve::run(&serve).await });
        let asks = async {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.connect(("127.0.0.1", port)).await.unwrap();
            let mut answer = [0; NAME];
            let answered = async {
                while !matches!(over_udp(format!("UDP:127.0.0.1:{port}").parse().unwrap()).await, Ok(name) if name == "web-1")
                {
                    sleep(PAUSE).await;
                }
            };
            timeout(Duration::from_secs(5), answered).await.unwrap();
            // What another server answers.
            socket.send(b"web-2\n").await.unwrap();
            let silent = timeout(Duration::from_millis(200), socket.recv(&mut answer)).await;
            assert!(silent.is_err(), "{silent:?}");
        };
        tasks.run_until(asks).await;
    }

    #[tokio::test]
    async fn nothing_is_counted_before_each_awaited_target_has_answered() {
        let port = free_port().await;
        let target = format!("TCP:127.0.0.1:{port}");
        let words = [
            "--wait=1".to_owned(),
            format!("--await={target}"),
            target.clone(),
        ];
        let report = report(&words).await;
        assert_eq!(report.unreached, [target.parse().unwrap()]);
        assert_eq!(report.calls, []);
        let error = run(&parsed::<CallArgs>(&[&format!("--end={target}")]).unwrap()).await;
        assert!(format!("{:#}", error.unwrap_err()).contains("cannot be ended"));
    }

    #[tokio::test]
    async fn the_report_is_written_where_the_kubelet_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("termination-log");
        let words = [
            format!("--report={}", path.display()),
            "--times=1".to_owned(),
            "TCP:127.0.0.1:1".to_owned(),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run(&parsed::<CallArgs>(&words).unwrap()).await.unwrap();
        let report: CallReport =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(report.calls[0].refused, 1);
    }
}
