//! The embedded API server on a runtime of its own, since everything else here blocks.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};

use super::format::ApiStep;
use crate::api::{ApiServer, Store};
use crate::net::NetNs;

/// Time between bookmarks of a stream.
const BOOKMARKS: Duration = Duration::from_secs(1);

/// A running API server; dropping it stops it. Its fields are dropped in this order.
/// Drop it outside of async code: it owns a tokio runtime.
#[derive(Debug)]
pub struct Serving {
    server: ApiServer,
    store: Store,
    kubeconfig: String,
    _runtime: Runtime,
}

impl Serving {
    /// Serves the store on the loopback of `netns`.
    pub fn start(netns: &NetNs, store: Store) -> Result<Self> {
        let listener = netns.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("api").enable_all().build()?;
        let context = runtime.enter();
        let server = ApiServer::start(listener, store.clone())?;
        drop(context);
        server.faults(|faults| faults.bookmark_period = Some(BOOKMARKS));
        Ok(Self { kubeconfig: server.kubeconfig(), server, store, _runtime: runtime })
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
            faults.cached = (step == ApiStep::Cached).then(|| self.store.revision());
            faults.mute_kind = match step {
                ApiStep::WatchStalled(kind) => Some(kind),
                ApiStep::Away | ApiStep::Stalled | ApiStep::Cached | ApiStep::Back => None,
            };
        });
    }
}
