//! The embedded API server on a thread of its own, since everything else here blocks.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::oneshot;

use super::format::ApiStep;
use crate::api::{ApiServer, Store};
use crate::net::NetNs;

/// Time between bookmarks of a stream.
const BOOKMARKS: Duration = Duration::from_secs(1);

/// A running API server; dropping it stops it.
#[derive(Debug)]
pub struct Serving {
    server: Arc<ApiServer>,
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
                let server = ApiServer::start(listener, store).map(Arc::new);
                if let Ok(server) = &server {
                    server.faults(|faults| faults.bookmark_period = Some(BOOKMARKS));
                }
                let _ = tell.send(server);
                let _ = stopped.await;
            });
        })?;
        let server = told.recv().context("the API server ended before it began")??;
        Ok(Self {
            kubeconfig: server.kubeconfig(),
            server,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Kubeconfig for clients in the same network namespace.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The server itself.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Stops, stalls or restores the server.
    pub fn set(&self, step: ApiStep) {
        self.server.faults(|faults| {
            faults.outage = step == ApiStep::Away;
            faults.hang = step == ApiStep::Stalled;
            faults.mute_kind = match step {
                ApiStep::WatchStalled(kind) => Some(kind),
                ApiStep::Away | ApiStep::Stalled | ApiStep::Back => None,
            };
        });
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
