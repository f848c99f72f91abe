//! Sockets, TLS and faults around one [`Store`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use k8s_openapi::ByteString;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::protocol::Api;
use super::store::random_uid;
use super::{Access, Audit, Execs, Faults, Logs, Store};

/// Time between changes of leases.
const RENEWALS: Duration = Duration::from_secs(1);

/// A running API server; it stops, and every connection breaks, when this is dropped.
pub struct ApiServer {
    /// Where the server listens.
    pub address: SocketAddr,
    /// PEM.
    certificate: String,
    /// Dropping this sender also ends the tasks that accept and serve.
    faults: watch::Sender<Faults>,
    /// What it consults, and what it records.
    pub api: Arc<Api>,
}

impl ApiServer {
    /// Serves `store` on a bound listener, in the network namespace that it was bound in.
    ///
    /// Errors: called outside of a tokio runtime, the listener has no address, or no certificate
    /// could be made.
    pub fn start(listener: std::net::TcpListener, store: Store) -> Result<Self> {
        Handle::try_current().context("API server: start it inside a tokio runtime")?;
        let address = listener
            .local_addr()
            .context("API server: listener has no address")?;
        listener
            .set_nonblocking(true)
            .context("API server: cannot make the listener non-blocking")?;
        let listener = TcpListener::from_std(listener).context("API server: cannot listen")?;
        let (certificate, tls) =
            certify(address.ip()).context("API server: cannot make a certificate")?;
        let faults = watch::Sender::new(Faults::default());
        let api = Arc::new(Api {
            store: store.clone(),
            faults: faults.subscribe(),
            token: random_uid(),
            audit: Audit::default(),
            access: Access::default(),
            execs: Execs::default(),
            logs: Logs::default(),
        });
        tokio::spawn(accept(listener, tls, Arc::clone(&api), faults.subscribe()));
        tokio::spawn(renew_leases(store, faults.subscribe()));
        Ok(Self {
            address,
            certificate,
            faults,
            api,
        })
    }

    /// A kubeconfig for the listener's address, CA and token inline.
    pub fn kubeconfig(&self) -> String {
        let cluster = json!({
            "server": format!("https://{}", self.address),
            "certificate-authority-data": ByteString(self.certificate.clone().into_bytes()),
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "lab", "user": {"token": self.api.token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab", "namespace": "default"}}],
        });
        format!("{config:#}\n")
    }

    /// Changes the faults: `server.faults(|f| f.outage = true)`.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(change);
    }

    /// Breaks every open connection; clients may connect again at once.
    pub fn reset_connections(&self) {
        self.faults(|faults| faults.resets += 1);
    }
}

/// Raises the resourceVersion until the server is dropped.
async fn renew_leases(store: Store, faults: watch::Receiver<Faults>) {
    while faults.has_changed().is_ok() {
        sleep(RENEWALS).await;
        if !faults.borrow().quiet {
            store.advance();
        }
    }
}

async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    api: Arc<Api>,
    mut faults: watch::Receiver<Faults>,
) {
    let mut connections = JoinSet::new();
    loop {
        if faults.wait_for(|f| !f.hang).await.is_err() {
            return;
        }
        tokio::select! {
            biased;
            changed = faults.changed() => if changed.is_err() {
                return;
            },
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                if faults.borrow().outage {
                    _ = stream.set_zero_linger();
                } else {
                    connections.spawn(serve(stream, tls.clone(), Arc::clone(&api), faults.clone()));
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection. Under `hang` it is not polled: the server reads and writes nothing, like
/// a stopped process.
async fn serve(
    stream: TcpStream,
    tls: TlsAcceptor,
    api: Arc<Api>,
    mut faults: watch::Receiver<Faults>,
) {
    let resets = faults.borrow().resets;
    let connection = async {
        let Ok(stream) = tls.accept(stream).await else {
            return;
        };
        let service = service_fn(|request| {
            let api = Arc::clone(&api);
            async move { Ok::<_, std::convert::Infallible>(api.handle(request).await) }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        _ = builder
            .serve_connection_with_upgrades(TokioIo::new(stream), service)
            .await;
    };
    tokio::pin!(connection);
    loop {
        let hang = {
            let now = faults.borrow_and_update();
            if now.outage || now.resets != resets {
                return;
            }
            now.hang
        };
        // Biased: a fault takes effect before any other work of the connection.
        tokio::select! {
            biased;
            changed = faults.changed() => if changed.is_err() {
                return;
            },
            () = &mut connection, if !hang => return,
        }
    }
}

/// Makes a certificate (PEM) for `ip` and the name that pods use, which is its own authority, and
/// what serves TLS with it.
fn certify(ip: IpAddr) -> Result<(String, TlsAcceptor)> {
    let names = ["kubernetes.default.svc".to_owned(), ip.to_string()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((cert.pem(), TlsAcceptor::from(Arc::new(config))))
}
