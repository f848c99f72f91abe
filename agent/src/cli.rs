//! The command line.

mod actions;
mod api;
mod cgroups;
mod ranges;
mod reasons;

pub use actions::{ActionArgs, Choice, SwitchArgs};
pub use api::ApiArgs;
pub use cgroups::{CgroupArgs, cgroup2_mount};
pub use ranges::RangeArgs;
pub use reasons::{ReasonArgs, reason};

use crate::carrier::IntentCarrier;
use crate::datapath::{Hooks, Xdp};
use crate::facts::Name;
use crate::metrics::MetricsArgs;
use crate::netlink::{Glob, Selection};
use crate::state::Ipam;
use crate::telemetry::LogFormat;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use epguard_common::{Mode, Reason};
use std::path::PathBuf;
use std::time::Duration;

/// Denies packets that a stale Service endpoint sends to dead or reused pod IPs.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the node agent: watch Kubernetes, attach the datapath, deny what is proven stale
    Agent(Box<AgentArgs>),
    /// Show or switch what the datapath does with denials, at once and without a reload
    #[command(
        after_help = "Examples:\n  epguard mode\n  epguard mode observe\n  epguard mode --reason terminated observe"
    )]
    Mode {
        /// off: look at nothing; observe: count what would be denied; enforce: deny [default: show the mode]
        #[arg(value_parser = mode())]
        mode: Option<Mode>,
        /// Only this reason: dead-backend, reused, retired-backend or terminated [default: the node's mode]
        #[arg(long, value_parser = reasons::reason)]
        reason: Option<Reason>,
        /// Where the datapath is pinned.
        #[command(flatten)]
        pins: PinArgs,
    },
    /// Switch how denied packets are stopped, at once and without a reload
    Action(SwitchArgs),
    /// Show what the agent on this node does, and what keeps it from doing it
    Status(crate::condition::StatusArgs),
    /// Show denied flows by Service, pod meant and pod hit, or as they come
    Drops(crate::drops::DropsArgs),
    /// Follow what is denied: packets per second by verdict, Service, pod meant and pod hit
    Top(crate::top::TopArgs),
    /// Show owners, denials and counters from the maps, with names if an agent runs
    #[command(after_help = "Examples:\n  epguard dump\n  epguard dump -o json | jq .denied")]
    Dump {
        /// Form of the output
        #[arg(short, long, default_value = "table")]
        output: Output,
        /// Where the datapath is pinned.
        #[command(flatten)]
        pins: PinArgs,
        /// Where the agent can be asked.
        #[command(flatten)]
        run: RunArgs,
    },
    /// Show which denials wait for a second list, or trust them by hand
    Breaker(crate::breaker::BreakerArgs),
    /// Find flows and rules of this node that still lead to pods that have ended
    Audit(crate::audit::AuditArgs),
    /// Find EndpointSlices that send traffic to the wrong pod or to nobody; needs only the API
    Lint(crate::lint::LintArgs),
    /// Explain the verdict about an IP, now or then: who owned it, and what moved it
    Why(crate::why::WhyArgs),
    /// Write one archive with what a bug report needs, without credentials
    Sysdump(crate::sysdump::SysdumpArgs),
    /// Print completions for a shell
    Completion(crate::manual::CompletionArgs),
    /// Write manual pages
    Man(crate::manual::ManArgs),
    /// Remove all hooks and maps from this node; stop the agent first, or it attaches again
    #[command(
        after_help = "Examples:\n  kubectl delete -k deploy/overlays/enforce, then on each node: epguard detach"
    )]
    Detach {
        /// Where the datapath is pinned.
        #[command(flatten)]
        pins: PinArgs,
    },
}

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
    #[arg(long, default_value = Mode::Observe.as_str(), value_parser = mode())]
    pub mode: Mode,
    /// Which reasons are carried out.
    #[command(flatten)]
    pub reasons: ReasonArgs,
    /// Config map that sets mode and reasons for all nodes, and may let canaries go first; it overrides the flags [default:
    /// none]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    pub fleet_config: Option<Name>,
    /// How denied packets are stopped.
    #[command(flatten)]
    pub actions: ActionArgs,
    /// Has no effect: every agent watches all pods
    #[arg(long, hide = true, value_name = "SCOPE")]
    pub pod_scope: Option<String>,
    /// Who hands out pod IPs: whether only pods of a node can have the IPs of its podCIDRs
    #[arg(long, default_value = "auto")]
    pub ipam: Ipam,
    /// Which endpoints may be denied.
    #[command(flatten)]
    pub ranges: RangeArgs,
    /// Interfaces that lead to pods [default with no --uplinks either: found by kind]
    #[arg(long, value_name = "GLOB", num_args = 1.., value_delimiter = ',')]
    pub pod_interfaces: Vec<Glob>,
    /// Interfaces that lead out of the node [default with no --pod-interfaces either: found by kind]
    #[arg(long, value_name = "GLOB", num_args = 1.., value_delimiter = ',')]
    pub uplinks: Vec<Glob>,
    /// How to attach to interfaces
    #[arg(long, default_value = "auto")]
    pub hooks: Hooks,
    /// How long an interface that appears later is left to the CNI before it gets a clsact qdisc, 0 to 300. Until then
    /// its traffic passes; kernels with TCX need no delay
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds(0))]
    pub clsact_delay: Duration,
    /// Where uplinks judge packets to IPs that nobody holds (terminated) before the network stack takes them in
    #[arg(long, default_value = "off")]
    pub xdp: Xdp,
    /// Bits of skb->tc_index that may carry which Service a packet is aimed at; bits that another program uses are never
    /// touched
    #[arg(long, default_value = "auto")]
    pub intent_carrier: IntentCarrier,
    /// Remove all hooks and maps on SIGTERM; without it denials go on until the lease ends, or the next agent takes over
    #[arg(long)]
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
    /// Whose sockets are followed.
    #[command(flatten)]
    pub cgroups: CgroupArgs,
    /// How much of the API server is used.
    #[command(flatten)]
    pub api: ApiArgs,
    /// How long denials outlive the agent, 3 to 300
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds(3))]
    pub lease: Duration,
    /// How old the least fresh watch may be while anything is denied, 3 to 300
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds(3))]
    pub max_view_age: Duration,
    /// What to do about a reason for which a packet was denied wrongly
    #[arg(long, default_value = "observe")]
    pub on_wrong_deny: crate::trust::OnWrongDeny,
    /// Form of the log
    #[arg(long, default_value = "text")]
    pub log_format: LogFormat,
    /// Log what the kernel programs do with each packet: slow, for a lab
    #[arg(long)]
    pub debug_datapath: bool,
}

impl AgentArgs {
    /// Which interfaces carry the hooks.
    #[must_use]
    pub fn selection(&self) -> Selection {
        Selection {
            pods: self.pod_interfaces.clone(),
            uplinks: self.uplinks.clone(),
        }
    }
}

/// Where the datapath is pinned.
#[derive(Debug, Args)]
pub struct PinArgs {
    /// Directory in bpffs with the datapath's maps and links
    #[arg(long, value_name = "PATH", default_value = "/sys/fs/bpf/epguard")]
    pub pin_dir: PathBuf,
}

/// Where the agent can be asked.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Directory with the agent's status socket
    #[arg(long, value_name = "PATH", default_value = "/run/epguard")]
    pub run_dir: PathBuf,
}

/// Form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

fn mode() -> impl TypedValueParser<Value = Mode> {
    const MODES: [Mode; 3] = [Mode::Off, Mode::Observe, Mode::Enforce];
    PossibleValuesParser::new(MODES.map(Mode::as_str)).map(|text| {
        MODES
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .unwrap_or_default()
    })
}

fn seconds(least: u64) -> impl TypedValueParser<Value = Duration> {
    clap::value_parser!(u64)
        .range(least..=300)
        .map(Duration::from_secs)
}

/// Reads `NAMESPACE/NAME`; none without both.
#[must_use]
pub fn name(text: &str) -> Option<Name> {
    let fits = |part: &str| !part.is_empty() && !part.contains('/');
    text.split_once('/')
        .filter(|(namespace, name)| fits(namespace) && fits(name))
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}

fn namespaced(text: &str) -> Result<Name, &'static str> {
    name(text).ok_or("not NAMESPACE/NAME, as in epguard/epguard")
}

/// A Service, `namespace/name`.
pub fn service(text: &str) -> Result<String, &'static str> {
    let named = name(text).map(|_| text.to_owned());
    named.ok_or("not a Service: NAMESPACE/NAME")
}

/// The alphabet of Node names tells a forgotten `$(NODE_NAME)` from a name.
fn node_name(text: &str) -> Result<String, &'static str> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if text.is_empty() || !text.chars().all(fits) {
        return Err(
            "not the name of a Node: pass --node-name, or set NODE_NAME from the pod's spec.nodeName (fieldRef)",
        );
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests;
