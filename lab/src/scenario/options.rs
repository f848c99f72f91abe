//! How an agent of a story is started.

use crate::net::cgroup_root;
use std::ffi::OsString;

/// How an agent is started.
#[derive(Clone, Copy, Debug)]
pub struct AgentOptions<'a> {
    /// `--node-name`.
    pub node: &'a str,
    /// `--mode`.
    pub mode: &'a str,
    /// Whether `retired-backend` is enforced when the mode is.
    pub enforce_retired: bool,
    /// `--hooks`; none: the agent's default.
    pub hooks: Option<&'a str>,
    /// `--xdp`; none: the agent's default.
    pub xdp: Option<&'a str>,
    /// `--lease` in seconds; none: the agent's default.
    pub lease: Option<u32>,
    /// `--max-view-age` in seconds; none: the agent's default.
    pub max_view_age: Option<u32>,
    /// `--intent-carrier`; none: the agent's default.
    pub intent_carrier: Option<&'a str>,
    /// `--action`; none: the agent's default.
    pub action: Option<&'a str>,
    /// `--fleet-config`; none: the agent's default.
    pub fleet_config: Option<&'a str>,
}

/// The command line, but for what every agent gets.
pub(super) fn arguments(options: &AgentOptions<'_>) -> Vec<OsString> {
    let retired = if options.enforce_retired {
        "retired-backend=enforce"
    } else {
        "retired-backend=observe"
    };
    let mut arguments: Vec<OsString> = ["--mode", options.mode]
        .into_iter()
        .chain(["--reason-mode", retired])
        .chain(options.xdp.iter().flat_map(|xdp| ["--xdp", *xdp]))
        .chain(options.hooks.iter().flat_map(|hooks| ["--hooks", *hooks]))
        .chain(options.action.iter().flat_map(|action| ["--action", *action]))
        .chain(
            options
                .fleet_config
                .iter()
                .flat_map(|map| ["--fleet-config", *map]),
        )
        .chain(
            options
                .intent_carrier
                .iter()
                .flat_map(|carrier| ["--intent-carrier", *carrier]),
        )
        // Stories wait for hooks, and no CNI plugin comes after the lab's.
        .chain(["--clsact-delay", "0"])
        .map(OsString::from)
        .collect();
    for (flag, seconds) in [
        ("--lease", options.lease),
        ("--max-view-age", options.max_view_age),
    ] {
        arguments.extend(seconds.map(|seconds| format!("{flag}={seconds}").into()));
    }
    if let Some(root) = cgroup_root() {
        arguments.extend(["--cgroup-root".into(), root.into()]);
    }
    arguments
}
