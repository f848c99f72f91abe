//! The same kind of denial on several nodes as one row. Pure.

use crate::shared::drops::{Dropped, Kind};
use std::collections::BTreeMap;

/// The most clients of a row, as in the agent.
const CLIENTS: usize = 8;

/// One row for each kind, the latest first, with the nodes that count it.
pub fn merged<'a>(nodes: impl Iterator<Item = (&'a str, &'a [Dropped])>) -> Vec<(Dropped, Vec<&'a str>)> {
    let mut kinds: BTreeMap<&Kind, (Dropped, Vec<&str>)> = BTreeMap::new();
    for (node, drops) in nodes {
        for dropped in drops {
            match kinds.get_mut(&dropped.kind) {
                Some((sum, nodes)) => {
                    add(sum, dropped);
                    nodes.push(node);
                }
                None => drop(kinds.insert(&dropped.kind, (dropped.clone(), vec![node]))),
            }
        }
    }
    let mut rows: Vec<_> = kinds.into_values().collect();
    rows.sort_by_key(|(dropped, _)| dropped.last_ms_ago);
    rows
}

fn add(sum: &mut Dropped, other: &Dropped) {
    sum.packets = sum.packets.saturating_add(other.packets);
    sum.bytes = sum.bytes.saturating_add(other.bytes);
    sum.openings = sum.openings.saturating_add(other.openings);
    sum.first_ms_ago = sum.first_ms_ago.max(other.first_ms_ago);
    sum.last_ms_ago = sum.last_ms_ago.min(other.last_ms_ago);
    for client in &other.clients {
        if sum.clients.len() < CLIENTS && !sum.clients.contains(client) {
            sum.clients.push(*client);
        }
    }
}
