//! Calls of many clients at the same time.

use serde::Deserialize;

use super::Action;

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
    pub callers: Vec<Caller>,
}

/// One client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Caller {
    pub who: String,
    pub from: String,
    pub call: String,
}

impl Burst {
    /// Every caller with its group, in the order of the file.
    pub fn callers(&self) -> impl Iterator<Item = (&Group, &Caller)> {
        let of = |group| move |caller| (group, caller);
        self.groups.iter().flat_map(move |group| group.callers.iter().map(of(group)))
    }

    /// The group whose packets are denied.
    pub fn denied(&self) -> Option<&Group> {
        self.groups.iter().find(|group| group.denied.is_some())
    }
}
