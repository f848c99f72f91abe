//! How many pods and IPs are in which state, for metrics.

use super::State;
use epguard_common::{Owner, Suspect, UidState};
use std::collections::BTreeMap;

/// Counts by state; a state without pods or IPs has 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCounts {
    /// Pods, with those that the API no longer shows: `live`, `draining` (terminating), `retired`, `dead`.
    pub pods: BTreeMap<&'static str, u64>,
    /// IPs: `owned`, and of these `draining` and `conflict`; `denied`; `terminated` and not lifted.
    pub ips: BTreeMap<&'static str, u64>,
}

impl State {
    /// Counts pods and IPs; reads every pod and every owner once.
    #[must_use]
    pub fn counts(&self) -> PodCounts {
        let mut pods = BTreeMap::from(["live", "draining", "retired", "dead"].map(|state| (state, 0)));
        for record in self.cluster.pods.iter() {
            let state = match record.uid_state {
                UidState::Live if record.pod.deleting => "draining",
                UidState::Live => "live",
                UidState::Retired => "retired",
                UidState::Dead => "dead",
            };
            *pods.entry(state).or_default() += 1;
        }
        let flagged = |flag| count(self.owners.values().filter(|owner| owner.flags & flag != 0));
        let suspects = self.tables.suspects.values();
        // Lifted ones stay in the map, but deny nothing.
        let orphan_ip = self.tables.terminated.values().filter(|ip| ip.lifted.is_none());
        let ips = [
            ("owned", count(self.owners.values())),
            ("draining", flagged(Owner::DRAINING)),
            ("conflict", flagged(Owner::CONFLICT)),
            (
                "denied",
                count(suspects.filter(|suspect| suspect.flags & Suspect::DENIED != 0)),
            ),
            ("terminated", count(orphan_ip)),
        ];
        PodCounts {
            pods,
            ips: ips.into(),
        }
    }

    /// How many IPs OWNERS should hold.
    #[must_use]
    pub fn owner_count(&self) -> usize {
        self.owners.len()
    }
}

fn count(of: impl Iterator) -> u64 {
    u64::try_from(of.count()).unwrap_or(u64::MAX)
}
