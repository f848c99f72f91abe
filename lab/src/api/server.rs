//! TLS, connections, authentication, the audit log.

use super::faults::Faults;
use super::store::Store;
use super::{ApiError, routes};
use anyhow::{Context as _, Result};
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, rustls};

/// A running server. Dropping it closes every connection.
#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    authority: String,
    token: String,
    faults: watch::Sender<Faults>,
    requests: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

/// One line of the audit log.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it came in.
    pub at: Instant,
    /// GET, POST, ...
    pub method: String,
    /// Path and query.
    pub uri: String,
}

/// What every request needs.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) store: Store,
    pub(super) faults: watch::Receiver<Faults>,
    pub(super) bookmark_period: Duration,
    token: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl ApiServer {
    /// Serves the store on a listener, which may live in another network namespace. Needs a tokio runtime.
    pub fn start(listener: std::net::TcpListener, store: Store, bookmark_period: Duration) -> Result<Self> {
        let address = listener
            .local_addr()
            .context("the API server's listener has no address")?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener).context("the API server needs a tokio runtime")?;
        let (tls, authority) = certificates(address)?;
        let (faults, receiver) = watch::channel(Faults::default());
        let requests = Arc::default();
        let token = uuid::Uuid::new_v4().simple().to_string();
        let context = Context {
            store,
            faults: receiver,
            bookmark_period,
            token: token.clone(),
            requests: Arc::clone(&requests),
        };
        let task = tokio::spawn(accept(listener, tls, context));
        Ok(Self {
            address,
            authority,
            token,
            faults,
            requests,
            task,
        })
    }

    /// A kubeconfig with everything inline. JSON, which is YAML.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {
                "server": format!("https://{}", self.address), "certificate-authority-data": self.authority,
            }}],
            "users": [{"name": "lab", "user": {"token": self.token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        });
        format!("{config:#}\n")
    }

    /// Changes what goes wrong.
    pub fn fault(&self, edit: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(edit);
    }

    /// The audit log so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, context: Context) {
    let mut connections = JoinSet::new();
    let mut faults = context.faults.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((socket, _)) = accepted else { continue };
                if !context.faults.borrow().down {
                    connections.spawn(connection(socket, tls.clone(), context.clone()));
                }
            }
            changed = faults.changed() => {
                if changed.is_err() {
                    return;
                }
                if faults.borrow_and_update().down {
                    connections.abort_all();
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(socket: tokio::net::TcpStream, tls: TlsAcceptor, context: Context) {
    // Events are small and their delay is measured.
    let _ = socket.set_nodelay(true);
    let Ok(stream) = tls.accept(socket).await else {
        return;
    };
    let service =
        hyper_util::service::TowerToHyperService::new(axum::routing::any(handle).with_state(context));
    if let Err(error) = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
    {
        tracing::debug!(%error, "connection ended");
    }
}

async fn handle(
    axum::extract::State(context): axum::extract::State<Context>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let line = Request {
        at: Instant::now(),
        method: parts.method.to_string(),
        uri: parts.uri.to_string(),
    };
    context
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(line);
    let text = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    if text(AUTHORIZATION) != format!("Bearer {}", context.token) {
        return routes::failure(&ApiError::new(401, "Unauthorized", "Unauthorized"));
    }
    let Ok(body) = axum::body::to_bytes(body, 16 << 20).await else {
        return routes::failure(&ApiError::new(
            413,
            "RequestEntityTooLarge",
            "request body too large",
        ));
    };
    let mut faults = context.faults.clone();
    let delay = faults.borrow().delay;
    tokio::time::sleep(delay).await;
    let _ = faults.wait_for(|faults| !faults.hang).await;
    routes::answer(&context, &parts.method, &parts.uri, text(CONTENT_TYPE), &body)
}

/// A certificate of a fresh authority for the address, and that authority in base64 PEM.
fn certificates(address: SocketAddr) -> Result<(TlsAcceptor, String)> {
    let certified = rcgen::generate_simple_self_signed(vec![address.ip().to_string(), "localhost".into()])
        .context("cannot make a certificate")?;
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der())
        .map_err(|error| anyhow::anyhow!("cannot use the key: {error}"))?;
    let mut config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .context("cannot use the certificate")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let authority = serde_json::to_value(k8s_openapi::ByteString(certified.cert.pem().into_bytes()))?;
    Ok((
        TlsAcceptor::from(Arc::new(config)),
        authority.as_str().unwrap_or_default().to_owned(),
    ))
}
