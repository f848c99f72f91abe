//! Calls of clients, one after the other or many at the same time, and the results that they must
//! see.

use epguard_common::Outcome;
use serde::Deserialize;
use strum::Display;

use super::{Wire, number};

/// Requests of one client, and the result that it must see.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "keys of a file")]
pub struct Call {
    pub call: Option<String>,
    pub on: Option<String>,
    pub keep: Option<String>,
    pub socket: Option<String>,
    pub from: Option<String>,
    #[serde(default = "yes")]
    pub socket_lb: bool,
    pub cgroup: Option<String>,
    #[serde(default)]
    pub net_cls: bool,
    #[serde(default)]
    pub mapped: bool,
    #[serde(default)]
    pub other_family: bool,
    #[serde(default)]
    pub protocol: Wire,
    pub port: Option<u16>,
    pub source_port: Option<u16>,
    #[serde(default = "number::<1, _>")]
    pub times: u32,
    pub size: Option<usize>,
    pub within: Option<f32>,
    pub packets: Option<u32>,
    pub sees: Sees,
    pub denied: Option<String>,
    #[serde(default)]
    pub only_observed: bool,
    pub by: Option<Action>,
    pub forbidden: Option<ForbiddenIn>,
    pub enforced: Option<Sees>,
    #[serde(default)]
    pub counted: Vec<String>,
}

words! {
    /// The action for a denied packet. Only an annotation can ask for `redirect`.
    Action { Drop, Reject, Redirect }

    /// Modes in which the neighbour's policy forbids a call.
    ForbiddenIn { EveryMode, Enforce }
}

impl Action {
    /// The outcome that counts it.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Drop => Outcome::Dropped,
            Self::Reject => Outcome::Rejected,
            Self::Redirect => Outcome::Redirected,
        }
    }
}

/// Results of requests: a pod's name, `nothing`, `refused` or `reset`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a pod's name, nothing, refused or reset, or a list of these"
)]
pub enum Sees {
    Always(String),
    Mixed(Vec<String>),
}

impl Sees {
    /// The results that a request may have.
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

/// Calls that start one shortly after the other, and of which none waits for another.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Burst {
    pub title: String,
    pub rounds: u32,
    pub groups: Vec<Group>,
    pub quicker_than: Option<Action>,
}

/// Callers that mean the same pod and see the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Group {
    pub means: String,
    pub sees: String,
    pub denied: Option<String>,
    pub by: Option<Action>,
    pub hit: Option<String>,
    pub claim: String,
    pub callers: Vec<BurstCaller>,
}

/// One client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BurstCaller {
    pub who: String,
    pub from: String,
    pub call: String,
}

impl Burst {
    /// Every caller with its group, in the order of the file.
    pub fn callers(&self) -> impl Iterator<Item = (&Group, &BurstCaller)> {
        self.groups
            .iter()
            .flat_map(|group| group.callers.iter().map(move |caller| (group, caller)))
    }

    /// The group whose packets are denied.
    pub fn denied(&self) -> Option<&Group> {
        self.groups.iter().find(|group| group.denied.is_some())
    }
}

fn yes() -> bool {
    true
}
