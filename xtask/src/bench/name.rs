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

/// The profile that a benchmark is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    Release,
    /// What `cargo xtask test` has built. Programs in the kernel are the same.
    Dev,
}

impl Name {
    /// Runs it. A benchmark of a package passes tables in `form`; the others only print.
    pub(super) fn command(self, profile: Profile) -> Command {
        match self {
            Self::Packet => bench("epguard", "packet", profile),
            Self::Node => bench("epguard", "node", profile),
            Self::Stack => bench("epguard-lab", "stack", profile),
            Self::Propagation => bench("epguard-lab", "propagation", profile),
            Self::SocketLb => bench("epguard-lab", "socket_lb", profile),
            Self::Flood => bench("epguard-lab", "flood", profile),
            Self::Outage => bench("epguard-lab", "outage", profile),
            Self::Interfaces => interfaces(),
            Self::Churn => {
                let mut replay = lab::release("replay");
                replay.args(["--agent", "--speed", "20"]);
                replay.arg(root().join("lab/traces/s-churn-4-addresses"));
                replay
            }
        }
    }
}

fn bench(package: &str, bench: &str, profile: Profile) -> Command {
    let mut cargo = cargo();
    cargo.args(["bench", "--quiet", "--package", package, "--bench", bench]);
    if profile == Profile::Dev {
        cargo.args(["--profile", "dev"]);
    }
    cargo
}

fn interfaces() -> Command {
    let mut cargo = cargo();
    cargo.args(["test", "--quiet", "--release", "--package", "epguard-lab"]);
    cargo.args(["--test", "cluster", "--", "--ignored", "--nocapture", "is_hooked"]);
    cargo
}
