//! An API server without sockets: the caller brings requests and carries the answers. It uses the runtime's clock alone, so it
//! runs on a virtual clock, too.

use std::convert::Infallible;
use std::fmt::Display;

use hyper::body::{Body, Bytes};
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Request, Response};
use tokio::sync::watch;

use super::protocol::Api;
use super::{Audit, Faults, Store};

/// What every request is authorized by, and the token in it.
const AUTHORIZED: HeaderValue = HeaderValue::from_static("Bearer direct");
const TOKEN: &str = "direct";

/// The API of a store. Streams end when this is dropped.
#[derive(Debug)]
pub struct Direct {
    api: Api,
    _faults: watch::Sender<Faults>,
}

impl Direct {
    /// Serves a store; several servers may share one.
    pub fn new(store: Store) -> Self {
        let faults = watch::Sender::new(Faults::default());
        let api = Api::new(store, faults.subscribe(), TOKEN.to_owned());
        Self { api, _faults: faults }
    }

    /// Answers one request.
    pub async fn send<B: Body<Error: Display>>(
        &self,
        mut request: Request<B>,
    ) -> Response<impl Body<Data = Bytes, Error = Infallible> + Send + use<B>> {
        request.headers_mut().insert(AUTHORIZATION, AUTHORIZED);
        self.api.handle(request).await
    }

    /// The requests received so far.
    pub fn audit(&self) -> &Audit {
        &self.api.audit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Empty};
    use serde_json::{Value, json};

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_socket_is_answered_and_counted() {
        let store = Store::new();
        let node = json!({"kind": "Node", "metadata": {"name": "n"}});
        store.apply(node).unwrap();
        let server = Direct::new(store);
        let request = Request::get("/api/v1/nodes").body(Empty::<Bytes>::new()).unwrap();
        let body = server.send(request).await.into_body().collect().await.unwrap();
        let list: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        assert_eq!(list["items"][0]["metadata"]["name"], "n");
        assert_eq!(server.audit().count("list", "nodes"), 1);
    }
}
