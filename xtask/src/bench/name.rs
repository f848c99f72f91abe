//! The benchmarks by name, and the command that runs each.

use std::process::Command;

use crate::lab;
use crate::process::{cargo, root};

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Name {
    /// A packet in each program, beside empty programs and xdp-filter
    Packet,
    /// Start on a node of 250 interfaces, takeover, memory
    Node,
    /// Traffic through a node, beside nftables and ipset
    Stack,
    /// From an event to the maps and to the first denied packet
    Propagation,
    /// An agent in clusters of 10,000 and 100,000 pods, beside its budgets
    Scale,
    /// All agents of a cluster at once, on a virtual clock
    Fleet,
    /// `kubectl epguard status` for 500 nodes
    FleetView,
    /// A call to a Service beside a socket load balancer
    SocketLb,
    /// Other traffic of a node under a SYN flood
    Flood,
    /// From a returned API server to the lease
    Outage,
    /// From a new interface to its hooks
    Interfaces,
    /// From the events of a recorded cluster to the maps
    Churn,
}

impl Name {
    /// Runs it. A benchmark of a package passes tables in `form`; the others only print.
    pub(super) fn command(self) -> Command {
        match self {
            // Nearly all their time is the kernel's, and its programs are always optimised: no other build is needed.
            Self::Packet => bench("epguard", "packet", "dev"),
            Self::Node => bench("epguard", "node", "dev"),
            Self::Stack => bench("epguard-lab", "stack", "release"),
            Self::Propagation => bench("epguard-lab", "propagation", "release"),
            Self::Scale => bench("epguard-lab", "scale", "release"),
            Self::Fleet => bench("epguard-lab", "fleet", "release"),
            Self::FleetView => bench("epguard-lab", "fleet_view", "release"),
            Self::SocketLb => bench("epguard-lab", "socket_lb", "release"),
            Self::Flood => bench("epguard-lab", "flood", "release"),
            Self::Outage => bench("epguard-lab", "outage", "release"),
            Self::Interfaces => interfaces(),
            Self::Churn => {
                let mut replay = lab::release("replay");
                replay.args(["--agent", "--speed", "20"]);
                replay.arg(root().join("lab/traces/s-churn-4-addresses"));
                replay
            }
        }
    }

    /// Whether it starts the agent or the lab, optimised.
    pub(super) fn starts_others(self) -> bool {
        !matches!(self, Self::Packet | Self::Node | Self::Fleet)
    }
}

fn bench(package: &str, bench: &str, profile: &str) -> Command {
    let mut cargo = cargo();
    cargo.args(["bench", "--quiet", "--profile", profile]);
    cargo.args(["--package", package, "--bench", bench]);
    cargo
}

fn interfaces() -> Command {
    let mut cargo = cargo();
    cargo.args(["test", "--quiet", "--release", "--package", "epguard-lab"]);
    cargo.args(["--test", "cluster", "--", "--ignored", "--nocapture", "is_hooked"]);
    cargo
}
