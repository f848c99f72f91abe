//! The command line.

mod ranges;

pub use ranges::RangeArgs;

use crate::datapath::Hooks;
use crate::netlink::{Glob, Selection};
use crate::state::{Ipam, Scope};
use crate::telemetry::LogFormat;
use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use epguard_common::Mode;
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
    /// Switch what the datapath does with denials, at once and without a reload
    Mode {
        /// off: look at nothing; observe: count what would be denied; enforce: deny
        #[arg(value_parser = mode())]
        mode: Mode,
        /// Where the datapath is pinned.
        #[command(flatten)]
        pins: PinArgs,
    },
    /// Show owners, denials and counters from the maps, and the agent's status if one runs
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
    /// Remove all hooks and maps from this node; stop the agent first, or it attaches again
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
    /// Most that is done about pods that left a Service but live on (retired-backend)
    #[arg(long, value_name = "MODE", default_value = Mode::Observe.as_str(), value_parser = mode())]
    pub retired: Mode,
    /// Which pods to watch; what a narrower scope cannot prove is not denied
    #[arg(long, default_value = "cluster")]
    pub pod_scope: Scope,
    /// Who hands out pod IPs
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
    /// Remove all hooks and maps on SIGTERM; without it denials go on until the lease ends, or the next agent takes over
    #[arg(long)]
    pub detach_on_exit: bool,
    /// Where maps and links stay.
    #[command(flatten)]
    pub pins: PinArgs,
    /// Where the status socket is.
    #[command(flatten)]
    pub run: RunArgs,
    /// The cgroup whose processes are followed [default: root of the cgroup2 mount]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// How long denials outlive the agent, 3 to 300
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds())]
    pub lease: Duration,
    /// How old the least fresh watch may be while anything is denied, 3 to 300
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds())]
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

/// Form of `epguard dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// One JSON document
    Json,
}

/// Where cgroup2 is mounted; the error says what to do without one.
pub fn cgroup2_mount() -> anyhow::Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").context("cannot read /proc/mounts")?;
    cgroup2_in(&mounts).context("no cgroup2 mount in /proc/mounts: mount one, or pass --cgroup PATH")
}

/// Fields of /proc/mounts: device, path, type, options.
fn cgroup2_in(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| path.into())
    })
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

fn seconds() -> impl TypedValueParser<Value = Duration> {
    clap::value_parser!(u64).range(3..=300).map(Duration::from_secs)
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
mod tests {
    use super::*;
    use clap::{CommandFactory as _, FromArgMatches as _};

    /// Whatever `NODE_NAME` is where the tests run.
    fn agent(args: &[&str]) -> Result<AgentArgs, String> {
        let args = ["epguard", "agent"].iter().chain(args);
        let cli =
            Cli::command().mut_subcommand("agent", |agent| agent.mut_arg("node_name", |arg| arg.env(None)));
        let matches = cli.try_get_matches_from(args).map_err(|e| e.to_string())?;
        match Cli::from_arg_matches(&matches)
            .map_err(|e| e.to_string())?
            .command
        {
            Command::Agent(agent) => Ok(*agent),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_only_observe() {
        let agent = agent(&["--node-name", "node-1.example"]).unwrap();
        assert_eq!(agent.node_name, "node-1.example");
        assert_eq!((agent.mode, agent.retired), (Mode::Observe, Mode::Observe));
        assert_eq!((agent.pod_scope, agent.ipam), (Scope::Cluster, Ipam::Auto));
        assert_eq!(agent.lease, Duration::from_secs(15));
        assert_eq!(agent.max_view_age, Duration::from_secs(30));
        assert_eq!(agent.pins.pin_dir, PathBuf::from("/sys/fs/bpf/epguard"));
        assert_eq!(agent.run.run_dir, PathBuf::from("/run/epguard"));
        assert!(agent.selection().pods.is_empty() && agent.selection().uplinks.is_empty());
    }

    #[test]
    fn a_missing_empty_or_unsubstituted_node_name_says_in_one_line_what_to_do() {
        for args in [&[][..], &["--node-name", ""], &["--node-name", "$(NODE_NAME)"]] {
            let error = agent(args).unwrap_err();
            let line = error.lines().next().unwrap();
            assert!(line.contains("--node-name <NAME>"), "{error}");
            assert!(
                line.contains("set NODE_NAME from the pod's spec.nodeName"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_unknown_mode_names_the_known_ones() {
        let error = agent(&["--node-name", "n", "--mode", "deny"]).unwrap_err();
        assert!(error.contains("'deny'"), "{error}");
        assert!(error.contains("off, observe, enforce"), "{error}");
    }

    #[test]
    fn a_lease_out_of_range_names_the_range() {
        let error = agent(&["--node-name", "n", "--lease", "2"]).unwrap_err();
        assert!(error.contains("3..=300"), "{error}");
    }

    #[test]
    fn interfaces_may_be_given_with_commas_and_repeatedly() {
        let args = [
            "--pod-interfaces",
            "cali*,tap*",
            "--pod-interfaces=veth*",
            "--uplinks",
            "eth0",
            "eth1",
        ];
        let agent = agent(&[&["--node-name", "n"], &args[..]].concat()).unwrap();
        let globs = |globs: &[Glob]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(globs(&agent.pod_interfaces), ["cali*", "tap*", "veth*"]);
        assert_eq!(globs(&agent.uplinks), ["eth0", "eth1"]);
    }

    #[test]
    fn the_mode_command_takes_a_mode_and_the_pins() {
        let cli = Cli::try_parse_from(["epguard", "mode", "enforce", "--pin-dir", "/p"]).unwrap();
        match cli.command {
            Command::Mode { mode, pins } => assert_eq!((mode, pins.pin_dir), (Mode::Enforce, "/p".into())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn hooks_are_chosen_by_name_and_stay_unless_told_otherwise() {
        let default = agent(&["--node-name", "n"]).unwrap();
        assert_eq!((default.hooks, default.detach_on_exit), (Hooks::Auto, false));
        let forced = agent(&["--node-name", "n", "--hooks", "clsact", "--detach-on-exit"]).unwrap();
        assert_eq!((forced.hooks, forced.detach_on_exit), (Hooks::Clsact, true));
        let error = agent(&["--node-name", "n", "--hooks", "xdp"]).unwrap_err();
        assert!(error.contains("auto, tcx, clsact"), "{error}");
    }

    #[test]
    fn the_first_cgroup2_mount_is_found_beside_version_1() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0\nbroken\n";
        assert_eq!(cgroup2_in(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(cgroup2_in("proc /proc proc rw 0 0\n"), None);
    }
}
