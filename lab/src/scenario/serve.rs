//! The embedded API server on a thread of its own, since everything else here blocks.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::sync::oneshot;

use crate::api::{ApiServer, Store};
use crate::net::NetNs;

/// How often a stream says that nothing has happened.
const BOOKMARKS: Duration = Duration::from_secs(1);

/// A running API server; dropping it stops it.
#[derive(Debug)]
pub struct Serving {
    kubeconfig: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Serves the store on the loopback of `netns`.
    pub fn start(netns: &NetNs, store: Store) -> Result<Self> {
        let listener = netns.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new().name("api".into()).spawn(move || {
            runtime.block_on(async {
                let server = ApiServer::start(listener, store);
                if let Ok(server) = &server {
                    server.faults(|faults| faults.bookmark_period = Some(BOOKMARKS));
                }
                let _ = tell.send(
                    server
                        .as_ref()
                        .map(ApiServer::kubeconfig)
                        .map_err(|error| anyhow!("{error:#}")),
                );
                let _ = stopped.await;
            });
        })?;
        let kubeconfig = told.recv().context("the API server ended before it began")??;
        Ok(Self {
            kubeconfig,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// For clients in the same network namespace.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
