//! Requests of the main loop to the watches while they run.

use epguard_core::facts::{Selection, Watched};
use epguard_core::state::Opinion;
use std::{collections::BTreeMap, time::Duration};
use tokio::{sync::watch, task::JoinSet};

/// The running watches; dropping this ends them.
#[derive(Debug, Default)]
pub struct Watches {
    pub(super) orders: BTreeMap<Watched, watch::Sender<Orders>>,
    pub(super) tasks: JoinSet<()>,
}

/// Requests to one watch that it hasn't begun to carry out; several of the same kind count as one.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The time within which a confirmation is needed.
    pub(super) confirm: Option<Duration>,
    pub(super) lists: Lists,
}

/// Lists that are ordered, by what they select (none: everything), each with the time over which all agents spread it.
pub(super) type Lists = BTreeMap<Option<Selection>, Duration>;

impl Watches {
    /// Asks for a confirmation, needed `within` that time: the longer that is, the fewer requests it takes. It results in
    /// [`Event::Proven`](super::Event::Proven) or [`Event::Unconfirmed`](super::Event::Unconfirmed), once the watch is up.
    pub fn confirm(&self, id: Watched, within: Duration) {
        if let Some(orders) = self.orders.get(&id) {
            orders.send_modify(|orders| orders.confirm = Some(within));
        }
    }

    /// Asks for one more list of everything. It is requested at a random moment `within` from now, or from when the watch is
    /// up, because the same event makes all agents ask. The watch begins anew with it.
    pub fn relist(&self, id: Watched, within: Duration) {
        let (kind, selection) = (id, None);
        self.list(Opinion { kind, selection }, within);
    }

    /// Asks for a second list, at such a moment too. During a narrow one the stream continues, and the list arrives once the
    /// stream has shown everything up to it. One that fails, or whose stream ends first, doesn't arrive.
    pub fn list(&self, Opinion { kind, selection }: Opinion, within: Duration) {
        if let Some(orders) = self.orders.get(&kind) {
            orders.send_modify(|orders| {
                orders.lists.insert(selection, within);
            });
        }
    }
}
