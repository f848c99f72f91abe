//! Another program beside epguard.

use serde::Deserialize;

use crate::neighbour::Kind;

/// The neighbour of a story. It hooks all pods of node-a.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Neighbour {
    /// Its programs; none: those that `runs` names.
    pub kind: Option<Kind>,
    /// Whether it also clears `tc_classid` and accepts at the ingress of pod interfaces.
    pub clears: bool,
    /// Calls that its policy forbids.
    pub forbids: Vec<Forbidden>,
    /// Which program starts first; none: the value in `runs`, else the neighbour.
    pub first: Option<First>,
    /// Priority of its filters under `--hooks clsact`; none: 1.
    pub priority: Option<u16>,
}

/// Calls that the neighbour's policy drops, over TCP and UDP.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Forbidden {
    /// A pod, `client`, `node-a` or `external`.
    pub from: String,
    /// A pod, an address name, or a Service: the packets aimed at its cluster IP, before DNAT.
    pub to: String,
    /// The destination port of a pod or address; 8080 by default.
    pub port: Option<u16>,
}

/// Which program starts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum First {
    /// The neighbour's programs are attached before the agent starts.
    Neighbour,
    /// The neighbour starts once the agent has seen everything.
    Epguard,
    /// A step starts the neighbour.
    Later,
}

/// An event of the neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NeighbourStep {
    /// Its programs are loaded and attached.
    Starts,
    /// New programs replace the old ones.
    Restarts,
    /// Its process ends. The programs stay; pods that start later get none.
    Killed,
    /// Its programs are detached.
    Stops,
}

/// Modes in which the neighbour's policy forbids a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForbiddenIn {
    /// In every mode.
    EveryMode,
    /// In `enforce`, where epguard redirects the call to a pod that the neighbour forbids.
    Enforce,
}
