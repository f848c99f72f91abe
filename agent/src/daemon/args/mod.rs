//! The options of `epguard agent`.

mod denials;
mod listen;

pub use denials::{DenialActionArgs, RangeArgs, ReasonArgs};
pub use listen::MetricsArgs;

use crate::daemon::report::kube_events::Announce;
use crate::daemon::telemetry::LogFormat;
use crate::kernel::datapath::{Hooks, Xdp};
use crate::node::netlink::Selection;
use crate::shared::args::{PinArgs, RunArgs, name, one_of, seconds};
use anyhow::{Result, ensure};
use clap::builder::FalseyValueParser;
use clap::{Args, value_parser};
use epguard_common::Mode;
use epguard_core::facts::ObjectName;
use epguard_core::freshness::requests_per_second;
use epguard_core::state::Ipam;
use glob::Pattern;
use std::path::PathBuf;
use std::time::Duration;
use strum::EnumMessage as _;

/// Options of `epguard agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Credentials for the API server [default: the pod's service account]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of this node's Node object
    #[arg(long, env = "NODE_NAME", value_name = "NAME", default_value = "", hide_default_value = true, value_parser = node_name)]
    pub node_name: String,
    /// Mode at the start
    #[arg(long, default_value = Mode::Observe.as_str(), value_parser = one_of(Mode::ALL, Mode::as_str, Mode::help))]
    pub mode: Mode,
    /// Which reasons are carried out.
    #[command(flatten)]
    pub reasons: ReasonArgs,
    /// `ConfigMap` with the mode policy: it sets mode and reasons for all nodes, and may set
    /// another mode for canary nodes; it overrides the flags [default: none]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    pub mode_policy: Option<ObjectName>,
    /// How denied packets are stopped.
    #[command(flatten)]
    pub actions: DenialActionArgs,
    /// How pod IPs are assigned: whether only a node's own pods can have the IPs of its podCIDRs
    #[arg(long, default_value = "auto", value_parser = one_of(
        [Ipam::Auto, Ipam::Node, Ipam::Cluster], Into::into, |ipam: Ipam| ipam.get_message().unwrap_or_default()))]
    pub ipam: Ipam,
    /// Which endpoints may be denied.
    #[command(flatten)]
    pub ranges: RangeArgs,
    /// Interfaces that lead to pods [default with no --uplinks either: found by kind]
    #[arg(long, value_name = "GLOB", num_args = 1.., value_delimiter = ',', value_parser = pattern)]
    pub pod_interfaces: Vec<Pattern>,
    /// Interfaces that lead out of the node [default with no --pod-interfaces either: found by
    /// kind]
    #[arg(long, value_name = "GLOB", num_args = 1.., value_delimiter = ',', value_parser = pattern)]
    pub uplinks: Vec<Pattern>,
    /// How to attach to interfaces
    #[arg(long, default_value = "auto")]
    pub hooks: Hooks,
    /// Seconds that a new interface waits for the CNI before it gets a clsact qdisc, 0 to 300.
    /// Until then its traffic passes; kernels with TCX need no delay
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds(0..=300))]
    pub clsact_delay: Duration,
    /// Where uplinks judge packets to orphan IPs (terminated) before the network stack receives
    /// them
    #[arg(long, default_value = "off")]
    pub xdp: Xdp,
    /// Where Cilium pins its maps, which show what it translates
    #[arg(long, value_name = "PATH", default_value = "/sys/fs/bpf/tc/globals")]
    pub cilium_maps: PathBuf,
    /// Directory of cgroup v2, or above one, where a socket load balancer is looked for [default:
    /// the first cgroup2 mount]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Remove all hooks and maps on SIGTERM; without it denials go on until the lease ends, or the
    /// next agent takes over
    #[arg(long, env, value_parser = FalseyValueParser::new())]
    pub detach_on_exit: bool,
    /// Where maps and links stay.
    #[command(flatten)]
    pub pins: PinArgs,
    /// Where the status socket is.
    #[command(flatten)]
    pub run: RunArgs,
    /// Where metrics are served.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// How much of the API server is used.
    #[command(flatten)]
    pub api: ApiArgs,
    /// Seconds that denials outlive the agent, 3 to 300
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds(3..=300))]
    pub lease: Duration,
    /// Age in seconds that the least fresh watch may have while anything is denied, 3 to 300
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds(3..=300))]
    pub max_view_age: Duration,
    /// What to do with a Service after a wrong denial (terminated: with that reason)
    #[arg(long, default_value = "observe")]
    pub on_wrong_deny: crate::daemon::demotion::OnWrongDeny,
    /// Form of the log
    #[arg(long, default_value = "text")]
    pub log_format: LogFormat,
    /// Log what the kernel programs do with each packet: slow, for a lab
    #[arg(long)]
    pub debug_datapath: bool,
}

impl AgentArgs {
    /// Which interfaces carry the hooks.
    pub fn selection(&self) -> Selection {
        Selection {
            pods: self.pod_interfaces.clone(),
            uplinks: self.uplinks.clone(),
        }
    }
}

/// What a shell takes for more than a letter, and `glob` for a letter.
const ONLY_OF_SHELLS: [&str; 5] = ["\\", "[^", "[[:", "[[.", "[[="];

/// Reads a pattern of names. Errors: it has not the form of one, or would mean something else in a
/// shell.
fn pattern(text: &str) -> Result<Pattern, &'static str> {
    let is_of_shells = ONLY_OF_SHELLS.iter().any(|part| text.contains(part));
    match Pattern::new(text) {
        Ok(pattern) if !is_of_shells => Ok(pattern),
        _ => Err("a pattern is a name with `*`, `?`, `[0-9]` or `[!0]`, as in cali*"),
    }
}

fn namespaced(text: &str) -> Result<ObjectName, &'static str> {
    name(text).ok_or("not NAMESPACE/NAME, as in epguard/epguard")
}

/// Checks the alphabet of Node names: it refuses a `$(NODE_NAME)` that was left unexpanded.
fn node_name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || !text.chars().all(is_of_node_names) {
        return Err(
            "not the name of a Node: pass --node-name, or set NODE_NAME from the pod's spec.nodeName (fieldRef)",
        );
    }
    Ok(text.into())
}

const fn is_of_node_names(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.')
}

/// How much of the API server the agent uses.
#[derive(Debug, Args)]
pub struct ApiArgs {
    /// Requests per second to the API server, 1 to 1000; more wait [default: 5, more with a
    /// --max-view-age below 9]
    #[arg(long = "api-rate", value_name = "REQUESTS_PER_SECOND", value_parser = value_parser!(u32).range(1..=1000))]
    pub rate: Option<u32>,
    /// Requests that may be sent at once after a pause, 1 to 10000
    #[arg(long = "api-burst", value_name = "REQUESTS", default_value = "100", value_parser = value_parser!(u32).range(1..=10_000))]
    pub burst: u32,
    /// What to write as Events into the API
    #[arg(long, value_name = "WHAT", default_value = "all")]
    pub events: Announce,
}

/// Far above what an agent needs with the other defaults.
const RATE: u32 = 5;

impl ApiArgs {
    /// Requests a second. Errors: fewer than keep a view fresh, so that nothing could be denied.
    pub fn rate(&self, watches: usize, max_view_age: Duration) -> Result<u32> {
        let needed = requests_per_second(watches, max_view_age);
        let rate = self.rate.unwrap_or(RATE.max(needed));
        let age = max_view_age.as_secs();
        ensure!(
            rate >= needed,
            "--api-rate {rate} cannot keep the view fresh for --max-view-age {age}, which may take {needed} requests a \
             second: raise one of the two"
        );
        Ok(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::args::parsed;

    fn rate(options: &[&str], max_view_age: u64) -> Result<u32, String> {
        let api: ApiArgs = parsed(options)?;
        let rate = api.rate(5, Duration::from_secs(max_view_age));
        rate.map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_rate_is_far_above_an_agents_need_and_rises_for_a_short_view() {
        let api: ApiArgs = parsed(&[]).unwrap();
        assert_eq!((api.burst, api.events), (100, Announce::All));
        assert_eq!(
            [300, 30, 8, 3].map(|age| rate(&[], age)),
            [5, 5, 5, 13].map(Ok)
        );
        assert_eq!(rate(&["--api-rate", "100"], 3), Ok(100));
        assert_eq!(rate(&["--api-rate", "2"], 30), Ok(2));
    }

    #[test]
    fn a_rate_too_low_to_keep_the_view_fresh_is_refused_in_one_line() {
        assert_eq!(
            rate(&["--api-rate", "1"], 30).unwrap_err(),
            "--api-rate 1 cannot keep the view fresh for --max-view-age 30, which may take 2 requests a second: raise one \
             of the two"
        );
    }
}
