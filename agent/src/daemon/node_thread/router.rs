//! Hands netlink's events to the loop and, if they are about interfaces, to the thread that hooks
//! these.

use super::order::{NodeEvent, NodeOrder};
use crate::node::netlink::NetworkChange;
use crate::shared::clock::boot;
use std::sync::mpsc::Sender;
use tokio::sync::mpsc;

/// Hands on changes until the loop has gone, or netlink.
pub async fn route(
    mut changes: mpsc::Receiver<NetworkChange>,
    orders: Sender<NodeOrder>,
    to_loop: mpsc::Sender<NodeEvent>,
) {
    let mut number = 0;
    while let Some(change) = changes.recv().await {
        number += 1;
        let event = NodeEvent {
            number,
            received: boot(),
            change,
        };
        if is_of_interfaces(&event.change) {
            // Where the thread has ended, so does the agent.
            let _ = orders.send(NodeOrder::Event(event.clone()));
        }
        if to_loop.send(event).await.is_err() {
            return;
        }
    }
}

const fn is_of_interfaces(change: &NetworkChange) -> bool {
    match change {
        NetworkChange::Appeared(_)
        | NetworkChange::Gone { .. }
        | NetworkChange::Defaults(_)
        | NetworkChange::Lost
        | NetworkChange::Recovered
        | NetworkChange::Settled => true,
        NetworkChange::Addresses(_) | NetworkChange::Routes(_) | NetworkChange::Announced(_) => {
            false
        }
    }
}
