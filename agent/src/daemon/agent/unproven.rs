//! Why deaths of pods are not proven, and possible holders, for the status.

use super::Agent;
use crate::shared::status::{PossibleHolder, UnprovenDeaths};
use epguard_core::facts::{Doubt, named};
use std::time::Duration;

impl Agent {
    pub(super) fn unproven(&self) -> Vec<UnprovenDeaths> {
        let unproven = self.state.unproven().into_iter();
        unproven
            .map(|unproven| UnprovenDeaths {
                manager: match unproven.doubt {
                    Doubt::Writer(manager) => Some(manager.to_string()),
                    Doubt::SandboxCondition => None,
                },
                nodes: unproven.nodes,
                pods: unproven.pods,
            })
            .collect()
    }

    pub(super) fn possible_holders(&self, now: Duration) -> Vec<PossibleHolder> {
        let holders = self.state.possible_holders(now).into_iter();
        holders
            .map(|holder| PossibleHolder {
                pod: named(&holder.pod),
                node: holder.node,
                since_ms: u64::try_from(holder.since.as_millis()).unwrap_or(u64::MAX),
                blocks_terminated: holder.blocks_terminated,
                blocks_services: holder.blocks_services.iter().map(named).collect(),
            })
            .collect()
    }
}
