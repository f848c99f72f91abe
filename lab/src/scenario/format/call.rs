//! What clients do, and what they must see.

use epguard_common::Outcome;
use serde::Deserialize;

use super::{ForbiddenIn, Wire};

/// Requests of one client, and what it must see.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Call {
    /// A Service, a pod of the story, or an address name. Left out where `on` names a kept flow.
    pub call: Option<String>,
    /// A flow that an earlier call has kept.
    pub on: Option<String>,
    /// Keeps the flow open under this name.
    pub keep: Option<String>,
    /// Uses the UDP socket of this name, which sends to many destinations from one port.
    pub socket: Option<String>,
    /// A pod of the story, `client`, `node-a` or `external`; by default the run's caller.
    pub from: Option<String>,
    /// Over which protocol.
    #[serde(default)]
    pub protocol: Wire,
    /// The destination port of a call that goes to a pod or address; 8080 by default.
    pub port: Option<u16>,
    /// A source port for TCP; every request of this call uses it.
    pub source_port: Option<u16>,
    /// How many requests, one after the other.
    #[serde(default = "once")]
    pub times: u32,
    /// What the client sees without epguard, and so with `off` and `observe`, too.
    pub sees: Sees,
    /// The reason why epguard denies these packets; without it none may be denied.
    pub denied: Option<String>,
    /// Denied at most in words: somebody's annotation says so, whatever the mode.
    #[serde(default)]
    pub only_observed: bool,
    /// How it is denied, as annotations ask; none: as the agent's action says.
    pub by: Option<By>,
    /// The neighbour's policy drops these packets; without it none may be dropped by it.
    pub forbidden: Option<ForbiddenIn>,
    /// What the client sees under `enforce`. By default that is `nothing` if the call is denied and `sees` is a single word, and
    /// `sees` otherwise.
    pub enforced: Option<Sees>,
    /// Outcomes that must be counted at least once, such as `draining`.
    #[serde(default)]
    pub counted: Vec<String>,
}

/// What is done with a denied packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Nothing comes back.
    Drop,
    /// The client gets an answer.
    Reject,
    /// The flow goes to a live endpoint.
    Redirect,
    /// The packet leaves by an interface of the operator's.
    Capture,
}

impl By {
    /// As what it is counted.
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

/// What requests end in: a pod's name, `nothing`, `refused` or `reset`.
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
    /// What a request may end in.
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
