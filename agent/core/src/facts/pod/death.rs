//! What a pod's status proves about the end of its containers.

use super::{ManagedFields, RawPod, Text, shared};
use epguard_common::UidState;

/// Managers of programs in which the kubelet and the controllers are one process: k3s, and `kubelite` of `MicroK8s`. The API
/// server merges what both write into one entry of managedFields.
const SHARED: [&str; 2] = ["k3s", "kubelite"];

/// What a finished pod lacks to be proven dead, though its containers have ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// A manager that is not known to be a kubelet wrote the phase.
    Writer(Text),
    /// The condition `PodReadyToStartContainers` is missing: kubelets before 1.29 do not report it.
    SandboxCondition,
}

impl RawPod<'_> {
    /// `KDEAD` of a Kubernetes 1.29+ kubelet: it writes the terminal phase only after `StopPodSandbox`
    /// (`status_manager.go:mergePodStatus`), but others write phases too (PodGC, out-of-service taint, any
    /// client with pods/status) while containers run, and a mirror's phase passes no such gate.
    pub(super) fn uid_state(&self, mirror: bool) -> (UidState, Option<Doubt>) {
        if !matches!(&*self.status.phase, "Succeeded" | "Failed") {
            return (UidState::Live, None);
        }
        if mirror || !self.status.containers_are_over(self.spec.containers.len()) {
            return (UidState::Retired, None);
        }
        let sandbox = self.status.condition("PodReadyToStartContainers");
        let Some(sandbox) = sandbox else {
            return (UidState::Retired, Some(Doubt::SandboxCondition));
        };
        if &*sandbox.status != "False" {
            return (UidState::Retired, None);
        }
        match writer(&self.metadata.managed_fields) {
            Some("kubelet") => (UidState::Dead, None),
            Some(manager) if SHARED.contains(&manager) => {
                let uid_state =
                    if self.is_ended_by_the_kubelet() { UidState::Dead } else { UidState::Retired };
                (uid_state, None)
            }
            Some(other) => (UidState::Retired, Some(Doubt::Writer(shared(other)))),
            None => (UidState::Retired, None),
        }
    }

    /// True if `PodGC` cannot have written the phase, though it writes under the same manager's name.
    ///
    /// * The kubelet gives `ContainersReady` a reason of its own for a pod that it has ended for good
    ///   (`GenerateContainersReadyCondition` in pkg/kubelet/status/generate.go); `PodGC` leaves that condition alone.
    /// * `PodGC` writes a phase in two cases (`gc_controller.go`): for pods that are terminating, and for
    ///   pods of nodes that are gone, which it marks with the condition `DisruptionTarget`.
    fn is_ended_by_the_kubelet(&self) -> bool {
        let reason = if &*self.status.phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
        let containers = self.status.condition("ContainersReady");
        let disrupted = self.status.condition("DisruptionTarget");
        self.metadata.deletion_timestamp.is_none()
            && containers.is_some_and(|c| &*c.status == "False" && &*c.reason == reason)
            && disrupted.is_none_or(|c| &*c.reason != "DeletionByPodGC")
    }
}

/// The manager that alone wrote the phase, through the status subresource. Field ownership moves to the manager that changes a
/// value, so a second owner has written the same phase.
fn writer<'a>(fields: &'a [ManagedFields<'_>]) -> Option<&'a str> {
    let mut owners = fields.iter().filter(|f| f.fields.status.phase.is_some());
    let only = owners.next().filter(|only| &*only.subresource == "status")?;
    owners.next().is_none().then_some(&*only.manager)
}
