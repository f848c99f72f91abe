//! The server as clients see it, through the kube client. The quick start
//! (`lab/tests/cluster/quickstart`) drives it with kubectl.

mod exec;
mod faults;
mod reads;
mod writes;

use std::net::TcpListener;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{AsyncBufReadExt, StreamExt};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::{ApiServer, ObjectRef, Store};

const PODS: &str = "/api/v1/pods";
const POD: &str = "/api/v1/namespaces/ns/pods/a";

/// One server and a client of it.
struct Lab {
    store: Store,
    server: ApiServer,
    client: kube::Client,
}

/// Code and JSON of a response.
type Answer = (u16, Value);

impl Lab {
    /// With these pods in the namespace `ns`, whose resourceVersions begin at 301.
    async fn with(pods: &[&str]) -> Self {
        let store = Store::default();
        for name in pods {
            store.apply(pod(name)).unwrap();
        }
        let server =
            ApiServer::start(TcpListener::bind("127.0.0.1:0").unwrap(), store.clone()).unwrap();
        server.faults(|faults| faults.quiet = true);
        let client = connect(&server.kubeconfig()).await;
        Self {
            store,
            server,
            client,
        }
    }

    fn remove(&self, name: &str) {
        self.store.remove(&ObjectRef::pod("ns", name)).unwrap();
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &Value::Null).await
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(method, path, body).await.unwrap()
    }

    /// Sends a request; a patch is a merge, and `APPLY` a patch that is server-side apply. An error
    /// if the transport fails or the response takes more than 20 s.
    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Answer, String> {
        let (method, kind) = match method {
            "PATCH" => ("PATCH", "application/merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            _ => (method, "application/json"),
        };
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string().into_bytes())
        };
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind);
        let exchange = async {
            let response = self
                .client
                .send(request.body(body).unwrap())
                .await
                .map_err(|e| e.to_string())?;
            let code = response.status().as_u16();
            let bytes = response
                .into_body()
                .collect()
                .await
                .map_err(|e| e.to_string())?
                .to_bytes();
            Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
        };
        tokio::time::timeout(Duration::from_secs(20), exchange)
            .await
            .map_err(|_| "no answer".to_string())?
    }

    /// Opens a stream; `query` is what follows `watch=1&`.
    async fn watch(&self, path: &str, query: &str) -> Stream {
        let request = hyper::Request::get(format!("{path}?watch=1&{query}"))
            .body(Vec::new())
            .unwrap();
        Stream(Box::pin(
            self.client.request_stream(request).await.unwrap().lines(),
        ))
    }
}

/// A client by kubeconfig, as the agent makes one.
async fn connect(kubeconfig: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .unwrap();
    // Retries of 504 would outlast the time limit of these tests.
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

/// An open watch.
struct Stream(BoxStream<'static, std::io::Result<String>>);

impl Stream {
    /// The next event. An error at the end of the stream, or if no event comes.
    async fn next(&mut self) -> Result<Value, &'static str> {
        match tokio::time::timeout(Duration::from_secs(2), self.0.next()).await {
            Err(_) => Err("silent"),
            Ok(None) => Err("END"),
            Ok(Some(Err(_))) => Err("broken"),
            Ok(Some(Ok(line))) => Ok(serde_json::from_str(&line).unwrap()),
        }
    }

    /// The next event as "TYPE name resourceVersion", or what [`Stream::next`] fails with.
    async fn line(&mut self) -> String {
        match self.next().await {
            Ok(event) => {
                let meta = &event["object"]["metadata"];
                let [name, rv] =
                    ["name", "resourceVersion"].map(|field| meta[field].as_str().unwrap_or("-"));
                format!("{} {name} {rv}", event["type"].as_str().unwrap())
            }
            Err(problem) => problem.into(),
        }
    }

    async fn expect(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.line().await, *line);
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

/// A failed Pod of another namespace.
fn failed(name: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["namespace"] = "other".into();
    pod["status"]["phase"] = "Failed".into();
    pod
}

/// Names of the items of a list.
fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}
