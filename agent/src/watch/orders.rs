//! Requests of the main loop to the watches while they run.

use epguard_core::facts::{Selection, Watched};
use epguard_core::state::Opinion;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::BTreeMap, collections::BTreeSet, time::Duration};
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

    /// Asks for a confirmation: a consistent LIST of few objects, or of none. It is needed `within` that time: the longer
    /// that is, the fewer requests it takes. It results in
    /// [`Message::Proven`](super::Message::Proven) once the watch has shown everything up to it, or in
    /// [`Message::Unconfirmed`](super::Message::Unconfirmed).
    ///
    /// A watch that is down confirms once it is up. A request that is repeated before the watch began with it counts
    /// once.
    pub fn confirm(&self, id: Watched, within: Duration) {
        if let Some(orders) = self.orders.get(&id) {
            let ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
            orders.within_ms.store(ms, Relaxed);
            orders.confirm.notify_one();
        }
    }

    /// Asks for one more list of everything, which arrives as an ordinary
    /// [`Change::Reset`](epguard_core::facts::Change::Reset). It is requested at a random moment `within` from now,
    /// because the same event makes all agents ask.
    ///
    /// The watch begins anew with it: streamed where the server can, else in pages.
    pub fn relist(&self, id: Watched, within: Duration) {
        self.later(id, within, |orders| orders.relist.notify_one());
    }

    /// Asks for a second list, at a random moment `within` from now.
    ///
    /// During a narrow one the stream continues, and the list arrives once the stream has shown everything up to it. One that
    /// fails, or whose stream ends first, doesn't arrive.
    pub fn list(&self, Opinion { kind, selection }: Opinion, within: Duration) {
        let Some(selection) = selection else {
            return self.relist(kind, within);
        };
        self.later(kind, within, |orders| {
            let mut selections = orders.selections.lock().unwrap_or_else(PoisonError::into_inner);
            selections.insert(selection);
            orders.narrow.notify_one();
        });
    }

    fn later(&self, id: Watched, within: Duration, order: impl FnOnce(&Orders) + Send + 'static) {
        if let Some(orders) = self.orders.get(&id).map(Arc::clone) {
            tokio::spawn(async move {
                sleep(within.mul_f64(fastrand::f64())).await;
                order(&orders);
            });
        }
    }
}

/// Requests to one watch that it hasn't begun to carry out; several of the same kind count as one.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) confirm: Notify,
    /// The time within which the confirmation is needed.
    within_ms: AtomicU64,
    pub(super) relist: Notify,
    /// Wakes the watch for narrow lists.
    pub(super) narrow: Notify,
    selections: Mutex<BTreeSet<Selection>>,
}

impl Orders {
    /// The time within which the confirmation is needed.
    pub(super) fn within(&self) -> Duration {
        Duration::from_millis(self.within_ms.load(Relaxed))
    }

    /// The narrow lists that were ordered since the last call.
    pub(super) fn take_selections(&self) -> BTreeSet<Selection> {
        std::mem::take(&mut self.selections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
