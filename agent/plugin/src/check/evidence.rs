//! What is known of a cell and of its node.

use super::plan::Cell;
use epguard_client::answers::status::Condition;
use epguard_client::answers::why::WhyVerdict;
use epguard_client::shared::calls::CallCount;
use epguard_client::shared::drops::Dropped;
use epguard_client::shared::status::Status;
use epguard_common::{Mode, Outcome, Reason};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What is known of a cell.
pub(super) struct Evidence<'a> {
    /// Which calls.
    pub cell: &'a Cell,
    /// What the caller counted.
    pub calls: &'a CallCount,
    /// The Service that was called, `namespace/name`; none: the pod's IP.
    pub service: Option<&'a str>,
    /// The IP that the Service lists.
    pub endpoint: IpAddr,
    /// What the agent counted of these calls.
    pub counted: &'a [Dropped],
    /// The node, as its agent shows it.
    pub node: &'a NodeEvidence,
    /// The pod that has finished, `namespace/name`.
    pub meant: &'a str,
    /// Whether that pod ran on the cell's node.
    pub is_local: bool,
    /// The live pod of the node, `namespace/name`; its server answers with the name alone.
    pub stranger: &'a str,
}

/// What the agent of a node says.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeEvidence {
    /// Its status before the calls; none if it has not shown that.
    pub before: Option<Status>,
    /// Its status after the calls; in words why there is none.
    pub condition: Option<Result<Condition, String>>,
    /// Packets to suspects that it has let pass during the calls, by the cause.
    pub passed: BTreeMap<Outcome, u64>,
    /// Its verdicts about the check's Services before the calls, by the endpoint's IP.
    pub verdicts: BTreeMap<IpAddr, Vec<WhyVerdict>>,
}

impl NodeEvidence {
    /// The mode in force for a reason, if the agent has shown it.
    pub fn mode(&self, reason: Reason) -> Option<Mode> {
        let status = &self.condition.as_ref()?.as_ref().ok()?.status;
        let mode = status.mode?;
        let own = status.reasons.get(&reason).copied();
        Some(own.map_or(mode, |own| own.lower(mode)))
    }
}
