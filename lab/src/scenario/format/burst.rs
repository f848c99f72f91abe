//! Calls of many clients at the same time.

use serde::Deserialize;

use super::Action;

/// Calls that start one shortly after the other, and of which none waits for another.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Burst {
    /// What reports call it.
    pub title: String,
    /// How often each caller calls.
    pub rounds: u32,
    /// The callers. One group at most is denied.
    pub groups: Vec<Group>,
    /// The denied calls take at the median a tenth at most of those that an earlier burst had denied in this way.
    pub quicker_than: Option<Action>,
}

/// Callers that mean the same pod and see the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Group {
    /// The pod that they want to reach.
    pub means: String,
    /// What each call ends in: an answer, `nothing` or `refused`.
    pub sees: String,
    /// The reason why epguard denies these packets, if it does.
    pub denied: Option<String>,
    /// How they are denied; none: epguard only observes.
    pub by: Option<Action>,
    /// The pod that denied packets would hit.
    pub hit: Option<String>,
    /// What `sees` is in words, after `all N `.
    pub claim: String,
    /// Who calls whom.
    pub callers: Vec<Caller>,
}

/// One client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Caller {
    /// For readers.
    pub who: String,
    /// A pod of the story, `client`, `node-a` or `external`.
    pub from: String,
    /// A Service, a pod of the story, or an address name.
    pub call: String,
}

impl Burst {
    /// Every caller with its group, in the order of the file.
    pub fn callers(&self) -> impl Iterator<Item = (&Group, &Caller)> {
        let of = |group| move |caller| (group, caller);
        self.groups
            .iter()
            .flat_map(move |group| group.callers.iter().map(of(group)))
    }

    /// The group whose packets are denied.
    #[must_use]
    pub fn denied(&self) -> Option<&Group> {
        self.groups.iter().find(|group| group.denied.is_some())
    }
}
