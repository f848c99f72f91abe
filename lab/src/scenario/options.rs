//! The command line of a story's agent.

use super::format;
use std::path::Path;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct AgentOptions<'a> {
    /// `--node-name`.
    pub node: &'a str,
    /// `--hooks`; none: the agent's default.
    pub hooks: Option<&'a str>,
    /// `--action`; none: the agent's default.
    pub action: Option<String>,
    /// `--cgroup`; none: the agent's default.
    pub cgroup: Option<&'a Path>,
    /// `--cilium-maps`; none: the agent's default.
    pub cilium_maps: Option<&'a Path>,
    /// The other flags; its `action` is not used.
    pub flags: &'a format::Agent,
}

impl AgentOptions<'_> {
    /// The command line, but for what every agent gets.
    pub(super) fn arguments(&self) -> Vec<String> {
        let flags = self.flags;
        let retired = if flags.enforce_retired { "enforce" } else { "observe" };
        let shown = |path: Option<&Path>| path.map(|path| path.display().to_string());
        let seconds = |seconds: Option<u32>| seconds.map(|seconds| seconds.to_string());
        let all = [
            ("mode", flags.mode.clone().or(Some("observe".into()))),
            ("reason-mode", Some(format!("retired-backend={retired}"))),
            ("xdp", flags.xdp.clone()),
            ("hooks", self.hooks.map(str::to_owned)),
            ("action", self.action.clone()),
            ("fleet-config", flags.fleet_config.clone()),
            // Stories wait for hooks, and no CNI plugin comes after the lab's.
            ("clsact-delay", Some("0".into())),
            ("lease", seconds(flags.lease)),
            ("max-view-age", seconds(flags.max_view_age)),
            ("cgroup", shown(self.cgroup)),
            ("cilium-maps", shown(self.cilium_maps)),
        ];
        let given = all.into_iter();
        given.filter_map(|(flag, value)| Some(format!("--{flag}={}", value?))).collect()
    }
}
