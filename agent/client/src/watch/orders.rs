//! What the main loop orders from a watch.

use epguard_core::facts::Selection;
use std::collections::BTreeMap;
use std::mem::take;
use std::time::Duration;
use tokio::sync::watch;

/// Orders to one watch that it hasn't begun to carry out; several of the same kind count as one.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The time within which a freshness check must have proven the watch.
    pub(super) check_within: Option<Duration>,
    pub(super) lists: OrderedLists,
}

/// Lists that are ordered, by what they select (none: everything), each with the time over which
/// all agents spread it.
pub(super) type OrderedLists = BTreeMap<Option<Selection>, Duration>;

/// Adds a list to the orders of a watch, which wakes the watch up.
pub(super) fn order_list(
    orders: &watch::Sender<Orders>,
    selection: Option<Selection>,
    within: Duration,
) {
    orders.send_modify(|orders| {
        orders.lists.insert(selection, within);
    });
}

/// Takes all orders out, without waking anything up.
pub(super) fn take_orders(orders: &watch::Sender<Orders>) -> Orders {
    let mut taken = Orders::default();
    orders.send_if_modified(|orders| {
        taken = take(orders);
        false
    });
    taken
}

/// Takes out the ordered lists, which a list of everything satisfies.
pub(super) fn forget_ordered_lists(orders: &watch::Sender<Orders>) {
    orders.send_if_modified(|orders| {
        orders.lists.clear();
        false
    });
}
