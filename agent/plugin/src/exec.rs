//! A command in an agent's pod.

use super::agents::{Agent, Fleet, refused};
use epguard_client::shared::client::one_line;
use futures::FutureExt as _;
use futures::future::OptionFuture;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::AttachParams;
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Most octets that are read of a node's errors.
const ERRORS: u64 = 64 << 10;

/// Octets that are read ahead.
const BUFFER: usize = 64 * 1024;

/// What a command printed, and its exit code.
#[derive(Debug)]
pub struct Done {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Exit code; 0 is success.
    pub code: u8,
}

/// Runs a command to its end. Errors: it could not run, the connection ended before it did, or it
/// prints more than `limit` octets; the cause and the remedy, in one line.
pub async fn run(
    fleet: &Fleet,
    agent: &Agent,
    command: &[&str],
    limit: u64,
) -> Result<Done, String> {
    if let Some(obstacle) = &agent.obstacle {
        return Err(obstacle.clone());
    }
    let namespace = &fleet.scope.agents_namespace;
    let pods: Api<Pod> = Api::namespaced(fleet.client.clone(), namespace);
    let params = AttachParams::default()
        .container(&agent.container)
        .stdin(false)
        .max_stdout_buf_size(BUFFER);
    let started = pods
        .exec(&agent.pod, command.iter().copied(), &params)
        .await;
    let right = format!("the verbs get and create on pods/exec in namespace {namespace}");
    let mut process = started.map_err(|error| refused("run commands in its pod", &right, error))?;
    let stdout = process.stdout();
    let stderr = process.stderr();
    let mut status = pin!(OptionFuture::from(process.take_status()).map(Option::flatten));
    let mut output =
        pin!(async { tokio::try_join!(read_at_most(stdout, limit), read_at_most(stderr, ERRORS)) });
    let ((stdout, stderr), status) = tokio::select! {
        output = &mut output => (output?, status.await),
        status = &mut status => {
            // Without a status the connection broke, and the output does not end.
            exit_code(status.as_ref())?;
            (output.await?, status)
        }
    };
    Ok(Done {
        code: exit_code(status.as_ref())?,
        stdout,
        stderr,
    })
}

async fn read_at_most(from: Option<impl AsyncRead + Unpin>, limit: u64) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    if let Some(from) = from {
        // What came before an error may hold the cause.
        let _ = from.take(limit).read_to_end(&mut all).await;
    }
    if all.len() as u64 == limit {
        // The rest is never read, so the command would not end.
        return Err(format!(
            "it prints {limit} octets or more, which are too many"
        ));
    }
    Ok(all)
}

/// The exit code in a status. Errors: there is none, or the command could not run.
fn exit_code(status: Option<&Status>) -> Result<u8, String> {
    let status = status.ok_or("the connection ended before the command")?;
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let mut causes = status
        .details
        .iter()
        .flat_map(|details| details.causes.iter().flatten());
    let code = causes.find_map(|cause| match (cause.reason.as_deref(), &cause.message) {
        (Some("ExitCode"), Some(message)) => message.parse::<i32>().ok(),
        _ => None,
    });
    if let Some(code) = code {
        return Ok(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let message = status.message.as_deref();
    Err(one_line(message.unwrap_or("the command cannot run")))
}
