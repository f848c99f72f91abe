//! The unix socket `<run-dir>/status.sock`: whoever connects gets one JSON document, then the end of file.

use super::Status;
use anyhow::Context as _;
use std::fs::{self, DirBuilder, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// A reader that takes longer gets no more.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves the newest status for ever. A socket that an earlier agent left is replaced, without a gap.
///
/// Only root may connect. Errors: the directory or the socket cannot be made.
pub async fn serve(run_dir: &Path, rx: watch::Receiver<Arc<Status>>) -> anyhow::Result<()> {
    let listener = bind(run_dir)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let status = rx.borrow().clone();
                tokio::spawn(async move {
                    match tokio::time::timeout(PATIENCE, send(stream, &status)).await {
                        Ok(Err(error)) => tracing::debug!("status reader left: {error:#}"),
                        Err(_) => tracing::debug!("status reader is too slow"),
                        Ok(Ok(())) => {}
                    }
                });
            }
            // Out of file descriptors, or the reader is gone again: the next one may do better.
            Err(error) => {
                tracing::warn!("cannot accept a status reader: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The running agent's status. Blocks; errors name the socket and the remedy.
pub fn read(run_dir: &Path) -> anyhow::Result<Status> {
    let path = socket(run_dir);
    let mut document = vec![];
    std::os::unix::net::UnixStream::connect(&path)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_to_end(&mut document)
        })
        .with_context(|| {
            let path = path.display();
            format!("no agent answers at {path}: run this as root on a node where epguard agent runs, with its --run-dir")
        })?;
    serde_json::from_slice(&document).with_context(|| {
        let path = path.display();
        format!("{path} does not speak this version's status: use the epguard binary of the running agent")
    })
}

fn socket(run_dir: &Path) -> PathBuf {
    run_dir.join("status.sock")
}

/// Made aside and renamed, so that there always is one to connect to and nobody sees it with other permissions.
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

async fn send(mut stream: UnixStream, status: &Status) -> anyhow::Result<()> {
    let document = serde_json::to_vec(status)?;
    stream.write_all(&document).await?;
    Ok(stream.shutdown().await?)
}
