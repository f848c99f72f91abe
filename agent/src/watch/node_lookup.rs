//! Asks the API server whether Nodes are still there, beside the watch: that shows only what it was sent.

use super::failure::Failure;
use super::protocol::Step;
use super::{Clock, Event, Message};
use anyhow::Result;
use epguard_common::Uid;
use epguard_core::facts::{NodeSeen, Text, Watched};
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A Node to ask for, and the time over which all agents spread that.
pub(super) type Order = (Text, Duration);

/// Sends an answer to each order, [`Event::NodeSeen`] or [`Event::Unconfirmed`], until the receiver is gone.
pub(super) async fn answer(
    client: kube::Client,
    clock: Clock,
    mut orders: mpsc::UnboundedReceiver<Order>,
    messages: mpsc::Sender<Message>,
) {
    let mut asked = FuturesUnordered::new();
    loop {
        let event = tokio::select! {
            Some((name, within)) = orders.recv() => {
                asked.push(ask(&client, clock, name, within));
                continue;
            }
            Some(event) = asked.next() => event,
            else => return,
        };
        if messages.send(Message { watch: Watched::Nodes, event }).await.is_err() {
            return;
        }
    }
}

async fn ask(client: &kube::Client, clock: Clock, name: Text, within: Duration) -> Event {
    sleep(within.mul_f64(fastrand::f64())).await;
    match seen(client, clock(), &name).await {
        Ok(seen) => Event::NodeSeen(seen),
        Err(error) => Event::Unconfirmed(Failure::of(Step::Once, "/api/v1/nodes", &error).error),
    }
}

/// Of a Node only the metadata is asked for: a tenth of it. The account may list Nodes, and not get one.
async fn seen(client: &kube::Client, at: Duration, name: &Text) -> Result<NodeSeen> {
    let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(1);
    let nodes = Api::<Node>::all(client.clone());
    let listed = timeout(PATIENCE, nodes.list_metadata(&params)).await??;
    let uid = listed.items.into_iter().next().and_then(|node| Uid::parse(&node.metadata.uid?));
    Ok(NodeSeen { name: name.clone(), uid: uid.unwrap_or_default(), at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::clock::boot;
    use crate::watch::tests::Server;

    fn node(uid: &str) -> String {
        format!(r#"{{"metadata":{{"name":"m","uid":"{uid}","resourceVersion":"3"}}}}"#)
    }

    #[tokio::test(start_paused = true)]
    async fn each_order_is_answered_with_the_uid_that_the_api_server_shows_or_with_the_error() {
        let (client, mut server) = Server::new();
        let (orders, ordered) = mpsc::unbounded_channel();
        let (tx, mut messages) = mpsc::channel(4);
        let task = tokio::spawn(answer(client, boot, ordered, tx));
        let uid = "6f1f9f3e-0000-4000-8000-000000000001";
        for (object, expected) in [(vec![node(uid)], uid), (vec![], "00000000-0000-0000-0000-000000000000")] {
            let before = boot();
            assert!(orders.send(("m".into(), Duration::from_secs(9))).is_ok());
            let call = server.call().await;
            assert_eq!(call.path(), "/api/v1/nodes");
            assert_eq!(call.param("fieldSelector"), Some("metadata.name%3Dm"));
            assert_eq!(call.param("resourceVersion"), None, "a consistent answer");
            call.page(7, "", &object).await;
            let Some(Message { event: Event::NodeSeen(seen), .. }) = messages.recv().await else {
                panic!("no answer");
            };
            assert_eq!((&*seen.name, seen.uid.to_string()), ("m", expected.to_owned()));
            assert!(seen.at >= before);
        }
        assert!(orders.send(("m".into(), Duration::ZERO)).is_ok());
        server.call().await.refuse(403, "nodes is forbidden").await;
        let message = messages.recv().await;
        assert!(matches!(message, Some(Message { event: Event::Unconfirmed(_), .. })), "{message:?}");
        drop(orders);
        assert!(task.await.is_ok());
    }
}
