//! What a pod's status proves about the end of its containers.

use super::raw::RawPod;
use crate::facts::meta::{ManagedFields, OwnedStatus};
use crate::facts::text::{Text, shared};
use epguard_common::UidState;

/// What a finished pod lacks to be proven dead, though its containers have ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// This manager wrote the phase, and is not the kubelet.
    Writer(Text),
    /// The condition `PodReadyToStartContainers` is missing: kubelets before 1.29 do not report it.
    SandboxCondition,
}

impl RawPod<'_> {
    /// Dead by a Kubernetes 1.29+ kubelet: it writes the terminal phase only after `StopPodSandbox`
    /// (`status_manager.go:mergePodStatus`), but others write phases too (PodGC, out-of-service
    /// taint, any client with pods/status) while containers run, and a mirror's phase passes no
    /// such gate.
    pub(super) fn uid_state(&self, mirror: bool) -> (UidState, Option<Doubt>) {
        if !matches!(&*self.status.phase, "Succeeded" | "Failed") {
            return (UidState::Live, None);
        }
        if mirror || !self.status.containers_are_over(self.spec.containers.len()) {
            return (UidState::Retired, None);
        }
        let Some(sandbox) = self.status.condition("PodReadyToStartContainers") else {
            return (UidState::Retired, Some(Doubt::SandboxCondition));
        };
        if &*sandbox.status != "False" || self.is_failed_by_podgc() {
            return (UidState::Retired, None);
        }
        let fields = &self.metadata.managed_fields;
        let Some(writer) = only_owner(fields, |owned| owned.phase.is_some()) else {
            return (UidState::Retired, None);
        };
        if only_owner(fields, OwnedStatus::shows_sandbox) != Some(writer) {
            return (UidState::Retired, Some(Doubt::Writer(shared(writer))));
        }
        if writes_more_than_statuses(fields, writer) && !self.is_ended_by_the_kubelet() {
            return (UidState::Retired, None);
        }
        (UidState::Dead, None)
    }

    /// True if `PodGC` wrote the phase of a pod whose node is gone: it marks such a pod
    /// (`gc_controller.go`).
    fn is_failed_by_podgc(&self) -> bool {
        let disrupted = self.status.condition("DisruptionTarget");
        disrupted.is_some_and(|disrupted| &*disrupted.reason == "DeletionByPodGC")
    }

    /// True if `PodGC` cannot have written the phase, though it may write under the same manager's
    /// name.
    ///
    /// * The kubelet gives `ContainersReady` a reason of its own for a pod that it has ended for
    ///   good (`GenerateContainersReadyCondition` in pkg/kubelet/status/generate.go); `PodGC`
    ///   leaves that condition alone.
    /// * Of pods whose node is there, `PodGC` writes a phase only for those that are terminating
    ///   (`gc_controller.go`).
    fn is_ended_by_the_kubelet(&self) -> bool {
        let reason = if &*self.status.phase == "Succeeded" {
            "PodCompleted"
        } else {
            "PodFailed"
        };
        let containers = self.status.condition("ContainersReady");
        self.metadata.deletion_timestamp.is_none()
            && containers.is_some_and(|c| &*c.status == "False" && &*c.reason == reason)
    }
}

/// The manager that alone owns some fields of the status, through its subresource. Field ownership
/// moves to the manager that changes a value, so a second owner has written the same value.
fn only_owner<'a>(
    fields: &'a [ManagedFields<'_>],
    owns: fn(&OwnedStatus) -> bool,
) -> Option<&'a str> {
    let mut owners = fields.iter().filter(|entry| owns(&entry.fields.status));
    let owner = owners.next()?;
    if owners.next().is_some() || &*owner.subresource != "status" {
        return None;
    }
    Some(&*owner.manager)
}

/// True if the manager wrote other parts of the pod than its status, as no kubelet does:
/// controllers have its name, too. So it is where the kubelet and the controllers are one process,
/// whose fields the API server merges into one entry.
fn writes_more_than_statuses(fields: &[ManagedFields<'_>], manager: &str) -> bool {
    fields
        .iter()
        .any(|entry| &*entry.manager == manager && &*entry.subresource != "status")
}
