//! The server as clients see it, through the kube client. The quick start (`lab/tests/cluster/quickstart`) drives it with kubectl.

mod deletes;
mod exec;
mod faults;
mod lists;
mod watches;
mod writes;

use std::net::TcpListener;
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::{ApiServer, Store};

/// One server and a client of it.
struct Lab {
    store: Store,
    server: ApiServer,
    client: kube::Client,
}

/// Code and JSON of a response.
type Answer = (u16, Value);

impl Lab {
    async fn start() -> Self {
        Self::serve(Store::new()).await
    }

    async fn serve(store: Store) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = ApiServer::start(listener, store.clone()).unwrap();
        server.faults(|faults| faults.quiet = true);
        let client = connect(&server.kubeconfig()).await;
        Self { store, server, client }
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "", &Value::Null).await
    }

    async fn call(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        self.try_call(method, path, content_type, body).await.unwrap()
    }

    /// Sends a request. An error if the transport fails or the response takes more than 5 s.
    async fn try_call(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Answer, String> {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string().into_bytes()) };
        let request = hyper::Request::builder().method(method).uri(path).header("content-type", content_type);
        let exchange = async {
            let response = self.client.send(request.body(body).unwrap()).await.map_err(|e| e.to_string())?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
            Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
        };
        tokio::time::timeout(Duration::from_secs(20), exchange).await.map_err(|_| "no answer".to_string())?
    }

    /// Opens a stream; `query` is what follows `watch=1&`.
    async fn watch(&self, path: &str, query: &str) -> Stream {
        let request = hyper::Request::get(format!("{path}?watch=1&{query}")).body(Body::empty()).unwrap();
        let response = self.client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Stream { body: response.into_body(), buffer: Vec::new() }
    }
}

/// A client by kubeconfig, as the agent makes one.
async fn connect(kubeconfig: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    // Retries of 504 would outlast the time limit of these tests.
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

/// An open watch.
struct Stream {
    body: Body,
    buffer: Vec<u8>,
}

impl Stream {
    /// The next event; none at the end of the stream, "silent" if none comes.
    async fn next(&mut self) -> Result<Option<Value>, &'static str> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).unwrap()));
            }
            match tokio::time::timeout(Duration::from_secs(2), self.body.frame()).await {
                Err(_) => return Err("silent"),
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err("broken"),
                Ok(Some(Ok(frame))) => self.buffer.extend_from_slice(frame.data_ref().unwrap()),
            }
        }
    }

    /// The next event as "TYPE name resourceVersion"; "END" at the end.
    async fn line(&mut self) -> String {
        match self.next().await {
            Ok(Some(event)) => {
                let meta = &event["object"]["metadata"];
                let [name, rv] = ["name", "resourceVersion"].map(|field| meta[field].as_str().unwrap_or("-"));
                format!("{} {name} {rv}", event["type"].as_str().unwrap())
            }
            Ok(None) => "END".into(),
            Err(problem) => problem.into(),
        }
    }
}

/// A bound, running Pod.
fn pod(name: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "ns", "labels": {"app": name}},
        "spec": {"nodeName": "node-a", "terminationGracePeriodSeconds": 7, "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": "10.244.1.2"},
    })
}

/// Names of the items of a list.
fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}
