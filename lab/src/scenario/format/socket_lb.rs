//! The load balancer at sockets, which takes the proxy's place for its callers.

use std::str::FromStr;

use serde::Deserialize;

/// An event of the load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketLbStep {
    /// Loads and attaches its programs, behind those that are at the root.
    Starts,
    /// Replaces its programs by new ones.
    Restarts,
    /// Detaches its programs; its maps stay.
    Stops,
}

/// An event of a cgroup in the root, written `batch made`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CgroupStep {
    /// Its name.
    pub cgroup: String,
    /// The event.
    pub event: CgroupEvent,
}

/// See [`CgroupStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupEvent {
    /// It is made.
    Made,
    /// It is removed; its open sockets stay.
    Removed,
}

impl TryFrom<String> for CgroupStep {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (cgroup, event) = text
            .split_once(' ')
            .ok_or_else(|| format!("{text:?} is not a cgroup and its event, as in `batch made`"))?;
        Ok(Self {
            cgroup: cgroup.into(),
            event: event.parse()?,
        })
    }
}

impl FromStr for CgroupEvent {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "made" => Ok(Self::Made),
            "removed" => Ok(Self::Removed),
            _ => Err(format!("unknown variant `{word}`, expected `made` or `removed`")),
        }
    }
}
