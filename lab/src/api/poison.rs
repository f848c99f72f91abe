//! Lists of pods with a false status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

/// The false status that a poisoned list shows for every pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Phase Failed, and no other change.
    Failed,
    /// Phase Failed, all containers ended, and the network gone.
    Dead,
}

/// A number of false lists of pods. The watches and later lists are true, with the same resourceVersions.
#[derive(Clone, Debug)]
pub struct Poison {
    pub(super) lie: Lie,
    lists: Arc<AtomicU32>,
}

impl Poison {
    /// Makes the next `lists` lists false.
    pub fn new(lie: Lie, lists: u32) -> Self {
        let lists = Arc::new(AtomicU32::new(lists));
        Self { lie, lists }
    }

    /// Counts one list off. True if that list is to be false.
    pub(super) fn take(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let taken = self.lists.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.is_ok()
    }
}

impl Lie {
    /// The pod with the false status.
    pub(super) fn tell(self, mut pod: Value) -> Value {
        match self {
            Self::Failed => pod["status"]["phase"] = "Failed".into(),
            Self::Dead => set_dead_status(&mut pod),
        }
        pod
    }
}

/// Gives a running pod the status of a dead one: phase Failed, all containers ended, and the network gone.
pub fn set_dead_status(pod: &mut Value) {
    let status = &mut pod["status"];
    status["phase"] = "Failed".into();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let ended = ["Ready", "ContainersReady", "PodReadyToStartContainers"];
        if ended.iter().any(|kind| condition["type"] == *kind) {
            condition["status"] = "False".into();
        }
    }
    for container in status["containerStatuses"].as_array_mut().into_iter().flatten() {
        let since = container["state"]["running"]["startedAt"].clone();
        container["ready"] = false.into();
        container["started"] = false.into();
        container["state"] = json!({"terminated": {
            "exitCode": 137, "reason": "Error", "startedAt": since, "finishedAt": since,
        }});
    }
}
