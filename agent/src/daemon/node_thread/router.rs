//! Hands netlink's events to the loop and, if they are about interfaces, to the thread that hooks
//! these.

use super::Order;
use crate::node::netlink::Event;
use crate::shared::clock::boot;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::mpsc;

/// An event of netlink.
#[derive(Debug, Clone)]
pub struct NodeEvent {
    /// Each has a greater one than the one before; the first has 1.
    pub number: u64,
    /// When it was received, `CLOCK_BOOTTIME`.
    pub received: Duration,
    /// What happened.
    pub event: Event,
}

/// Hands on events until the loop has gone, or netlink.
pub async fn route(
    mut events: mpsc::Receiver<Event>,
    orders: Sender<Order>,
    to_loop: mpsc::Sender<NodeEvent>,
) {
    let mut number = 0;
    while let Some(event) = events.recv().await {
        number += 1;
        let event = NodeEvent {
            number,
            received: boot(),
            event,
        };
        if is_of_interfaces(&event.event) {
            // Where the thread has ended, so does the agent.
            let _ = orders.send(Order::Event(event.clone()));
        }
        if to_loop.send(event).await.is_err() {
            return;
        }
    }
}

const fn is_of_interfaces(event: &Event) -> bool {
    match event {
        Event::Appeared(_)
        | Event::Gone { .. }
        | Event::Defaults(_)
        | Event::Lost
        | Event::Recovered
        | Event::Settled => true,
        Event::Addresses(_) | Event::Routes(_) | Event::Announced(_) => false,
    }
}
