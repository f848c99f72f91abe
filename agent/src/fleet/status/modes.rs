//! Which modes a node should have by the `ConfigMap`, and whether it has. Pure.

use crate::fleet::cluster::Nodes;
use crate::shared::status::{ModeSource, Status};
use epguard_common::{Mode, Reason};
use epguard_core::facts::ModePolicy;

/// Whether the Node has the label of canaries. The agent only counts where nodes may not be listed.
pub fn is_canary(nodes: Option<&Nodes>, node: &str, status: &Status) -> bool {
    let claimed = || status.mode_source == ModeSource::Canary;
    nodes.map_or_else(claimed, |nodes| nodes.canaries.contains(node))
}

/// How the node's modes differ from the `ConfigMap`'s; none if they do not, or if the node reports a problem with it.
pub fn deviation(modes: &ModePolicy, status: &Status, canary: bool) -> Option<String> {
    if status.config_map.is_some() || !modes.errors.is_empty() {
        return None;
    }
    // None leaves the mode to the flags.
    let by_canary_mode = modes.wanted.canary_mode.filter(|_| canary);
    if let (Some(wanted), Some(is)) = (by_canary_mode.or(modes.wanted.mode), status.mode)
        && wanted != is
    {
        return Some(format!("mode {is} instead of {wanted}"));
    }
    let mut reasons = modes.wanted.reasons.iter();
    reasons.find_map(|(reason, wanted)| of_reason(*reason, *wanted, status))
}

/// A wrong denial may have lowered the reason's mode.
fn of_reason(reason: Reason, wanted: Mode, status: &Status) -> Option<String> {
    let wanted = wanted.lower(status.mode?);
    let is = *status.reasons.get(&reason)?;
    (is != wanted && !status.demoted.contains(&reason)).then(|| format!("{reason} {is} instead of {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::WantedModes;

    #[test]
    fn the_label_of_a_node_counts_and_not_its_agents_word() {
        let claims =
            Status { mode: Some(Mode::Enforce), mode_source: ModeSource::Canary, ..Status::default() };
        let nodes = |canaries: &[&str]| Nodes {
            canaries: canaries.iter().map(|node| (*node).to_owned()).collect(),
            ..Nodes::default()
        };
        assert!(is_canary(None, "a", &claims));
        assert!(is_canary(Some(&nodes(&["a"])), "a", &Status::default()));
        let canary = is_canary(Some(&nodes(&["b"])), "a", &claims);
        let modes = ModePolicy {
            wanted: WantedModes {
                mode: Some(Mode::Observe),
                canary_mode: Some(Mode::Enforce),
                ..WantedModes::default()
            },
            ..ModePolicy::default()
        };
        let deviation = deviation(&modes, &claims, canary);
        assert_eq!(deviation.as_deref(), Some("mode enforce instead of observe"));
    }
}
