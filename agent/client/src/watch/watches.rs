//! Starts the watches, and takes orders for them.

use super::attempts::Start;
use super::message::{Clock, Message};
use super::node_lookup::{NodeLookup, answer_node_orders};
use super::orders::{Orders, order_list};
use super::session::Narrowing;
use epguard_core::facts::{ObjectName, Selection, Text, WATCHED_NODES, Watched};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The running watches. Dropping this ends them, unless their tasks were taken out.
#[derive(Debug, Default)]
pub struct Watches {
    orders: BTreeMap<Watched, watch::Sender<Orders>>,
    nodes: Option<mpsc::UnboundedSender<NodeLookup>>,
    tasks: JoinSet<()>,
}

impl Watches {
    /// Asks for a freshness check that has proven the watch `within` that time: the longer that is,
    /// the fewer requests it takes. It results in [`WatchEvent::Proven`] or
    /// [`WatchEvent::CheckFailed`], once the watch is up.
    ///
    /// [`WatchEvent::Proven`]: super::WatchEvent::Proven
    /// [`WatchEvent::CheckFailed`]: super::WatchEvent::CheckFailed
    pub fn check_freshness(&self, id: Watched, within: Duration) {
        if let Some(orders) = self.orders.get(&id) {
            orders.send_modify(|orders| orders.check_within = Some(within));
        }
    }

    /// Asks whether a Node is there, at a random moment `within` from now. It results in
    /// [`WatchEvent::NodeSeen`] or [`WatchEvent::CheckFailed`].
    ///
    /// [`WatchEvent::NodeSeen`]: super::WatchEvent::NodeSeen
    /// [`WatchEvent::CheckFailed`]: super::WatchEvent::CheckFailed
    pub fn look_at_node(&self, name: Text, within: Duration) {
        if let Some(nodes) = &self.nodes {
            // Without a receiver the watches are over.
            let _ = nodes.send(NodeLookup { name, within });
        }
    }

    /// Asks for one more list of everything, or for a narrow one. It is requested at a random
    /// moment `within` from now, or from when the watch is up, because the same event makes all
    /// agents ask.
    ///
    /// The watch begins anew with a list of everything. During a narrow one the stream continues,
    /// and the list arrives once the stream has shown everything up to it; if a stream ends first,
    /// the next one requests it again. One that fails doesn't arrive.
    pub fn list(&self, id: Watched, selection: Option<Selection>, within: Duration) {
        if let Some(orders) = self.orders.get(&id) {
            order_list(orders, selection, within);
        }
    }

    /// Asks each watch for one more list of everything, but not the one that lists by itself.
    pub fn list_all(&self, but: Option<Watched>, within: Duration) {
        for id in self.orders.keys().filter(|id| Some(**id) != but) {
            self.list(*id, None, within);
        }
    }

    /// The tasks of the watches, for whoever has to know that one has panicked: none ends by itself
    /// while the receiver of messages is there. Dropping them ends the watches.
    pub fn take_tasks(&mut self) -> JoinSet<()> {
        std::mem::take(&mut self.tasks)
    }

    /// Starts one watch.
    pub(super) fn start(&mut self, watched: Watched, start: Start) {
        let (orders, session) = watched.visit(start);
        self.orders.insert(watched, orders);
        self.tasks.spawn(session);
    }
}

/// Starts the watches of the agent on `node`, and that of the mode policy's `ConfigMap` if one is
/// named. They run until the handle is dropped or the receiver is gone.
pub fn start(
    client: &kube::Client,
    clock: Clock,
    node: &str,
    mode_policy: Option<&ObjectName>,
    messages: &mpsc::Sender<Message>,
) -> Watches {
    let server = Arc::default();
    let mut watches = Watches::default();
    let start_of = |watched| Start {
        client: client.clone(),
        clock,
        watched,
        one: None,
        narrowing: None,
        messages: messages.clone(),
        server: Arc::clone(&server),
    };
    for watched in Watched::ALWAYS {
        let mut start = start_of(watched);
        if watched == Watched::Nodes {
            start.narrowing = Some(Narrowing {
                name: node.to_owned(),
                most: WATCHED_NODES,
            });
        }
        watches.start(watched, start);
    }
    if let Some(config_map) = mode_policy {
        let mut start = start_of(Watched::ModePolicy);
        start.one = Some(config_map.clone());
        watches.start(Watched::ModePolicy, start);
    }
    let (nodes, node_orders) = mpsc::unbounded_channel();
    watches.nodes = Some(nodes);
    let answers = answer_node_orders(client.clone(), clock, node_orders, messages.clone());
    watches.tasks.spawn(answers);
    watches
}
