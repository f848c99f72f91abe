//! Threads for what keeps one busy or waits: the agent's loop has a lease to renew meanwhile. TLS and JSON of large lists take long, and
//! the kernel answers netlink only once other programs' changes of the network are done.

use anyhow::{Context as _, Result};
use std::future::pending;
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{self, Receiver};

/// Starts a thread. It runs what is spawned on the handle until the process ends; if it ends before, the receiver fails.
pub fn start_thread(name: &str) -> Result<(Handle, Receiver<()>)> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .with_context(|| format!("cannot start a runtime for {name}"))?;
    let handle = runtime.handle().clone();
    let (runs, ended) = oneshot::channel();
    let run = move || {
        let _runs: oneshot::Sender<()> = runs;
        runtime.block_on(pending::<()>());
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .with_context(|| format!("cannot start a thread for {name}"))?;
    Ok((handle, ended))
}
