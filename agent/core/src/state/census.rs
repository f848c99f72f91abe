//! How many pods and IPs are in which state, for metrics.

use super::{Life, State};
use epguard_common::{Owner, Suspect};
use std::collections::BTreeMap;

/// Counts by state; every state is there, be it with 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Census {
    /// Pods, remembered ones included: `live`, `draining` (terminating), `retired`, `dead`.
    pub pods: BTreeMap<&'static str, u64>,
    /// IPs: `owned`, and of these `draining` and `conflict`; `denied`; `terminated` and not lifted.
    pub ips: BTreeMap<&'static str, u64>,
}

impl State {
    /// Counts at the cost of one look at every pod and every owner.
    #[must_use]
    pub fn census(&self) -> Census {
        let mut pods = BTreeMap::from(["live", "draining", "retired", "dead"].map(|state| (state, 0)));
        for record in self.world.pods.iter() {
            let state = match record.life {
                Life::Live if record.pod.deleting => "draining",
                Life::Live => "live",
                Life::Retired => "retired",
                Life::Dead => "dead",
            };
            *pods.entry(state).or_default() += 1;
        }
        let flagged = |flag| count(self.owners.values().filter(|owner| owner.flags & flag != 0));
        let suspects = self.tables.suspects.values();
        // Lifted ones stay in the map, but deny nothing.
        let vacant = self.tables.terminated.values().filter(|ip| ip.lifted.is_none());
        let ips = [
            ("owned", count(self.owners.values())),
            ("draining", flagged(Owner::DRAINING)),
            ("conflict", flagged(Owner::CONFLICT)),
            (
                "denied",
                count(suspects.filter(|suspect| suspect.flags & Suspect::DENIED != 0)),
            ),
            ("terminated", count(vacant)),
        ];
        Census {
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
