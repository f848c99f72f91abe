//! The load balancer that takes the proxy's place for its callers.

use serde::Deserialize;

use super::word;

/// An event of the load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketLbStep {
    Starts,
    Restarts,
    Resizes,
    Stops,
}

/// An event of a cgroup in the root, written `batch made`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CgroupStep {
    pub cgroup: String,
    pub event: CgroupEvent,
}

/// See [`CgroupStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupEvent {
    Made,
    Removed,
}

impl TryFrom<String> for CgroupStep {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (cgroup, event) = text
            .split_once(' ')
            .ok_or_else(|| format!("{text:?} is not a cgroup and its event, as in `batch made`"))?;
        Ok(Self { cgroup: cgroup.into(), event: word(event)? })
    }
}
