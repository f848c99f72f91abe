//! Requests of the main loop to the watches while they run.

use epguard_core::facts::{Selection, Watched};
use epguard_core::state::Opinion;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, time::Duration};
use tokio::{sync::Notify, task::JoinSet};

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
    /// [`Change::Reset`](epguard_core::facts::Change::Reset). It is requested at a random moment `within` from now, or from
    /// when the watch is up, because the same event makes all agents ask.
    ///
    /// The watch begins anew with it: streamed where the server can, else in pages.
    pub fn relist(&self, id: Watched, within: Duration) {
        let (kind, selection) = (id, None);
        self.list(Opinion { kind, selection }, within);
    }

    /// Asks for a second list, at such a moment too.
    ///
    /// During a narrow one the stream continues, and the list arrives once the stream has shown everything up to it. One that
    /// fails, or whose stream ends first, doesn't arrive.
    pub fn list(&self, Opinion { kind, selection }: Opinion, within: Duration) {
        if let Some(orders) = self.orders.get(&kind) {
            orders.list(selection, within);
        }
    }
}

/// Requests to one watch that it hasn't begun to carry out; several of the same kind count as one.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) confirm: Notify,
    /// The time within which the confirmation is needed.
    within_ms: AtomicU64,
    /// Wakes the watch for lists.
    pub(super) list: Notify,
    lists: Mutex<Lists>,
}

/// Lists that are ordered, by what they select (none: everything), each with the time over which all agents spread it.
pub(super) type Lists = BTreeMap<Option<Selection>, Duration>;

impl Orders {
    /// The time within which the confirmation is needed.
    pub(super) fn within(&self) -> Duration {
        Duration::from_millis(self.within_ms.load(Relaxed))
    }

    /// Orders a list.
    pub(super) fn list(&self, selection: Option<Selection>, within: Duration) {
        self.lists().insert(selection, within);
        self.list.notify_one();
    }

    /// The lists that were ordered since the last call.
    pub(super) fn take_lists(&self) -> Lists {
        std::mem::take(&mut self.lists())
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
