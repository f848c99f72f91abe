//! Calls of clients, and the results that they must see.

use epguard_common::Outcome;
use serde::Deserialize;

use super::{ForbiddenIn, Wire};

/// Requests of one client, and the result that it must see.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "keys of a file")]
pub struct Call {
    /// A Service, a pod of the story, or an address name. Left out where `on` names a kept flow.
    pub call: Option<String>,
    /// The name of a flow that an earlier call has kept.
    pub on: Option<String>,
    /// Keeps the flow open under this name.
    pub keep: Option<String>,
    /// Uses the UDP socket of this name, which sends to many destinations from one port.
    pub socket: Option<String>,
    /// A pod of the story, `client`, `node-a` or `external`; by default the run's caller.
    pub from: Option<String>,
    /// Whether callers at a load balancer at sockets make the call, too.
    #[serde(default = "yes")]
    pub socket_lb: bool,
    /// The cgroup of the run's root that the socket is made in, for callers at a load balancer at sockets.
    pub cgroup: Option<String>,
    /// For those callers: the process that makes the socket is also in a cgroup of the v1 hierarchy `net_cls`.
    #[serde(default)]
    pub net_cls: bool,
    /// Uses an IPv6 socket and the v4-mapped address.
    #[serde(default)]
    pub mapped: bool,
    /// The protocol.
    #[serde(default)]
    pub protocol: Wire,
    /// The destination port of a call that goes to a pod or address; 8080 by default.
    pub port: Option<u16>,
    /// A source port for TCP; every request of this call uses it.
    pub source_port: Option<u16>,
    /// How many requests, one after the other.
    #[serde(default = "once")]
    pub times: u32,
    /// Result without epguard, and so also with `off` and `observe`.
    pub sees: Sees,
    /// The reason why epguard denies these packets; without a reason none may be denied.
    pub denied: Option<String>,
    /// Denied only in `observe`: an annotation limits the mode.
    #[serde(default)]
    pub only_observed: bool,
    /// Action that annotations ask for; none: the agent's `--action`.
    pub by: Option<Action>,
    /// The neighbour's policy drops these packets; without it none may be dropped by it.
    pub forbidden: Option<ForbiddenIn>,
    /// Result under `enforce`. By default that is `nothing` if the call is denied and `sees` is a single word, and
    /// `sees` otherwise.
    pub enforced: Option<Sees>,
    /// Outcomes that must be counted at least once, such as `draining`.
    #[serde(default)]
    pub counted: Vec<String>,
}

/// The action for a denied packet. Only an annotation can ask for `redirect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The client gets no answer.
    Drop,
    /// The client gets an answer.
    Reject,
    /// The flow goes to a live endpoint.
    Redirect,
    /// The packet leaves by an interface of the operator's.
    Capture,
}

impl Action {
    /// As `--action` takes it.
    #[must_use]
    pub fn flag(self) -> String {
        match self {
            Self::Capture => "capture=cap0".into(),
            other => other.to_string(),
        }
    }

    /// The outcome that counts it.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Drop => Outcome::Dropped,
            Self::Reject => Outcome::Rejected,
            Self::Redirect => Outcome::Redirected,
            Self::Capture => Outcome::Captured,
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Drop => "drop",
            Self::Reject => "reject",
            Self::Redirect => "redirect",
            Self::Capture => "capture",
        })
    }
}

/// Results of requests: a pod's name, `nothing`, `refused` or `reset`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a pod's name, nothing, refused or reset, or a list of these"
)]
pub enum Sees {
    /// Every request ends so.
    Always(String),
    /// Each of these is seen at least once, and nothing else.
    Mixed(Vec<String>),
}

impl Sees {
    /// The results that a request may have.
    #[must_use]
    pub fn allowed(&self) -> &[String] {
        match self {
            Self::Always(one) => std::slice::from_ref(one),
            Self::Mixed(several) => several,
        }
    }
}

impl std::fmt::Display for Sees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.allowed().join(" and "))
    }
}

fn once() -> u32 {
    1
}

fn yes() -> bool {
    true
}
