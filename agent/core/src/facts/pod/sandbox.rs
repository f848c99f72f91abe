//! Whether a pod's status shows the IPs of the sandbox that runs.

use super::super::hash;
use super::{Container, Status};
use std::num::NonZeroU32;

/// Whether the published IPs are those of the sandbox that runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// A container was started in the sandbox that is up, by the kubelet's clock: the IPs are current.
    Published,
    /// By that clock all containers were started before, but none of them twice: the clock may have been set back.
    FirstStarts,
    /// No container start seen since the sandbox came up, or no sandbox: the pod may hold another IP than it shows.
    #[default]
    Unsettled,
}

impl Status<'_> {
    /// The kubelet reports a new sandbox (`PodReadyToStartContainers=True`) from its cached status, with the old
    /// IPs and the old containers (`kubelet.go:OnPodSandboxReady`, 1.36): the IPs are current once a container
    /// was started after that. Both times are the kubelet's own, in whole seconds.
    pub(super) fn sandbox(&self) -> Sandbox {
        let up = self.condition("PodReadyToStartContainers");
        if up.is_some_and(|up| &*up.status != "True") {
            return Sandbox::Unsettled;
        }
        let since = up.and_then(|up| up.last_transition_time.as_deref());
        let started = self.containers().flat_map(Container::starts).max();
        match (started, since) {
            (None, _) => Sandbox::Unsettled,
            (Some(started), Some(since)) if started < since => {
                let is_first = self.containers().all(|container| container.restart_count == 0);
                if is_first { Sandbox::FirstStarts } else { Sandbox::Unsettled }
            }
            _ => Sandbox::Published,
        }
    }

    pub(super) fn starts(&self) -> u32 {
        let starts: Vec<&str> = self.containers().flat_map(Container::starts).collect();
        let [a, b, c, d, ..] = hash(&starts).to_ne_bytes();
        if starts.is_empty() { 0 } else { u32::from_ne_bytes([a, b, c, d]) | 1 }
    }

    pub(super) fn sandbox_since(&self) -> Option<NonZeroU32> {
        let up = self.condition("PodReadyToStartContainers");
        let since = up.filter(|up| &*up.status == "True")?.last_transition_time.as_deref()?;
        let since = since.parse::<jiff::Timestamp>().ok()?.as_second();
        NonZeroU32::new(u32::try_from(since).ok()?)
    }
}

impl Container<'_> {
    /// RFC 3339 in UTC and whole seconds, as the kubelet writes it; such times compare as text.
    fn starts(&self) -> impl Iterator<Item = &str> {
        let runs = [&self.state.running, &self.state.terminated, &self.last_state.terminated];
        runs.into_iter().filter_map(|run| run.as_ref()?.started_at.as_deref())
    }
}
