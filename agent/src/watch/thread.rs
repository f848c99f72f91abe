//! The thread of the API's client and of the watches. TLS and JSON of large lists keep it busy for long, and the agent's loop has a
//! lease to renew meanwhile.

use anyhow::{Context as _, Result};
use std::future::pending;
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{self, Receiver};

/// Starts the thread. It runs what is spawned on the handle until the process ends; if it ends before, the receiver fails.
pub fn start_thread() -> Result<(Handle, Receiver<()>)> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime for the watches")?;
    let handle = runtime.handle().clone();
    let (runs, ended) = oneshot::channel();
    let run = move || {
        let _runs: oneshot::Sender<()> = runs;
        runtime.block_on(pending::<()>());
    };
    thread::Builder::new()
        .name("watches".to_owned())
        .spawn(run)
        .context("cannot start a thread for the watches")?;
    Ok((handle, ended))
}
