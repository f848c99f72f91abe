//! Requests of the main loop to the watches while they run.

use epguard_core::facts::Watched;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinSet, time::sleep};

/// The running watches; dropping this ends them.
#[derive(Debug)]
pub struct Watches {
    orders: BTreeMap<Watched, Arc<Orders>>,
    _tasks: JoinSet<()>,
}

impl Watches {
    pub(super) fn new(orders: BTreeMap<Watched, Arc<Orders>>, tasks: JoinSet<()>) -> Self {
        Self {
            orders,
            _tasks: tasks,
        }
    }

    /// Asks for a confirmation: a consistent LIST of few objects. It results in
    /// [`Message::Proven`](super::Message::Proven) once the watch has shown everything up to it, or in
    /// [`Message::Unconfirmed`](super::Message::Unconfirmed).
    ///
    /// A watch that is down confirms once it is up. A request that is repeated before the watch began with it counts
    /// once.
    pub fn confirm(&self, id: Watched) {
        if let Some(orders) = self.orders.get(&id) {
            orders.confirm.notify_one();
        }
    }

    /// Asks for one more consistent list, which arrives as an ordinary
    /// [`Change::Reset`](epguard_core::facts::Change::Reset). It is requested at a random moment `within` from now,
    /// because the same event makes all agents ask.
    ///
    /// The stream continues meanwhile, and the list arrives once the stream has shown everything up to it. A list
    /// that fails is asked for again.
    pub fn relist(&self, id: Watched, within: Duration) {
        if let Some(orders) = self.orders.get(&id).map(Arc::clone) {
            tokio::spawn(async move {
                sleep(within.mul_f64(fastrand::f64())).await;
                orders.relist.notify_one();
            });
        }
    }
}

/// Requests to one watch that it hasn't begun to carry out; several of the same kind count as one.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) confirm: Notify,
    pub(super) relist: Notify,
}
