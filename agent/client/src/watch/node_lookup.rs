//! Asks the API server whether Nodes are still there, beside the watch: that shows only what it was
//! sent.

use super::failure::Failure;
use super::message::{Clock, Message, WatchEvent};
use super::request_error::RequestError;
use super::step::Step;
use epguard_common::Uid;
use epguard_core::facts::{NodeSeen, Text, Watched};
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests at the same time. The agent's requests wait in one row, those that keep its view fresh
/// too, and any namespace can make it ask for Nodes.
const AT_ONCE: usize = 2;

/// A Node to ask for.
#[derive(Debug)]
pub(super) struct NodeLookup {
    pub(super) name: Text,
    /// The time over which all agents spread their requests.
    pub(super) within: Duration,
}

/// Sends an answer to each order, [`WatchEvent::NodeSeen`] or [`WatchEvent::CheckFailed`], until
/// the receiver is gone. Orders of one Node are one until it is answered.
pub(super) async fn answer_node_orders(
    client: kube::Client,
    clock: Clock,
    mut orders: mpsc::UnboundedReceiver<NodeLookup>,
    messages: mpsc::Sender<Message>,
) {
    let turns = Semaphore::new(AT_ONCE);
    let mut asked = FuturesUnordered::new();
    let mut names = BTreeSet::new();
    loop {
        let (name, event) = tokio::select! {
            Some(order) = orders.recv() => {
                if names.insert(order.name.clone()) {
                    asked.push(look_at_node(&client, clock, &turns, order));
                }
                continue;
            }
            Some(answer) = asked.next() => answer,
            else => return,
        };
        names.remove(&name);
        let message = Message {
            watch: Watched::Nodes,
            event,
        };
        if messages.send(message).await.is_err() {
            return;
        }
    }
}

async fn look_at_node(
    client: &kube::Client,
    clock: Clock,
    turns: &Semaphore,
    NodeLookup { name, within }: NodeLookup,
) -> (Text, WatchEvent) {
    sleep(within.mul_f64(fastrand::f64())).await;
    let _turn = turns.acquire().await.ok();
    let event = match request_node(client, clock(), &name).await {
        Ok(seen) => WatchEvent::NodeSeen(seen),
        Err(error) => {
            let failure = Failure::of(Step::Once, "/api/v1/nodes", &error);
            WatchEvent::CheckFailed(failure.error)
        }
    };
    (name, event)
}

/// Of a Node only the metadata is asked for: a tenth of it. The account may list Nodes, and not get
/// one.
async fn request_node(
    client: &kube::Client,
    at: Duration,
    name: &Text,
) -> Result<NodeSeen, RequestError> {
    let params = ListParams::default()
        .fields(&format!("metadata.name={name}"))
        .limit(1);
    let nodes = Api::<Node>::all(client.clone());
    let listed = timeout(PATIENCE, nodes.list_metadata(&params)).await??;
    let uid = listed
        .items
        .into_iter()
        .next()
        .and_then(|node| Uid::parse(&node.metadata.uid?));
    Ok(NodeSeen {
        name: name.clone(),
        uid: uid.unwrap_or_default(),
        at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::Server;
    use crate::watch::tests::boot;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::{Request, Response};
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    fn node(uid: &str) -> String {
        format!(r#"{{"metadata":{{"name":"m","uid":"{uid}","resourceVersion":"3"}}}}"#)
    }

    fn order(name: &str, within: Duration) -> NodeLookup {
        NodeLookup {
            name: name.into(),
            within,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_order_is_answered_with_the_uid_that_the_api_server_shows_or_with_the_error() {
        let (client, mut server) = Server::new();
        let (orders, ordered) = mpsc::unbounded_channel();
        let (tx, mut messages) = mpsc::channel(4);
        let task = tokio::spawn(answer_node_orders(client, boot, ordered, tx));
        let uid = "6f1f9f3e-0000-4000-8000-000000000001";
        for (object, expected) in [
            (vec![node(uid)], uid),
            (vec![], "00000000-0000-0000-0000-000000000000"),
        ] {
            let before = boot();
            assert!(orders.send(order("m", Duration::from_secs(9))).is_ok());
            let call = server.call().await;
            assert_eq!(call.path(), "/api/v1/nodes");
            assert_eq!(call.param("fieldSelector"), Some("metadata.name%3Dm"));
            assert_eq!(call.param("resourceVersion"), None, "a consistent answer");
            call.page(7, "", &object).await;
            let Some(Message {
                event: WatchEvent::NodeSeen(seen),
                ..
            }) = messages.recv().await
            else {
                panic!("no answer");
            };
            assert_eq!(
                (&*seen.name, seen.uid.to_string()),
                ("m", expected.to_owned())
            );
            assert!(seen.at >= before);
        }
        assert!(orders.send(order("m", Duration::ZERO)).is_ok());
        server.call().await.refuse(403, "nodes is forbidden").await;
        let message = messages.recv().await;
        assert!(
            matches!(
                message,
                Some(Message {
                    event: WatchEvent::CheckFailed(_),
                    ..
                })
            ),
            "{message:?}"
        );
        drop(orders);
        assert!(task.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_many_nodes_is_asked_for_once_and_few_at_a_time() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&now), Arc::clone(&most));
        let server = tower::service_fn(move |_: Request<kube::client::Body>| {
            let (now, most) = counts.clone();
            async move {
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                sleep(Duration::from_millis(100)).await;
                now.fetch_sub(1, Relaxed);
                let list = r#"{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": []}"#;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(list))))
            }
        });
        let (sender, orders) = mpsc::unbounded_channel();
        let (messages, mut answers) = mpsc::channel(100);
        for number in 0..20 {
            sender
                .send(order(&format!("node-{}", number % 10), Duration::ZERO))
                .unwrap();
        }
        drop(sender);
        answer_node_orders(
            kube::Client::new(server, "default"),
            || Duration::ZERO,
            orders,
            messages,
        )
        .await;
        let mut asked = Vec::new();
        while let Some(Message {
            event: WatchEvent::NodeSeen(seen),
            ..
        }) = answers.recv().await
        {
            asked.push(seen.name.to_string());
        }
        assert_eq!(
            (asked.len(), most.load(Relaxed)),
            (10, AT_ONCE),
            "{asked:?}"
        );
    }
}
