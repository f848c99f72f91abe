//! Lists that lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

/// What a poisoned list says of every pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Its phase is Failed; nothing else is said of its end.
    Failed,
    /// The same, its containers have ended, and its network is gone.
    Dead,
}

/// Some lists of pods that lie; the watches and later lists tell the truth, with the same resourceVersions.
#[derive(Clone, Debug)]
pub struct Poison {
    pub(super) lie: Lie,
    lists: Arc<AtomicU32>,
}

impl Poison {
    /// The next `lists` lists will lie.
    #[must_use]
    pub fn new(lie: Lie, lists: u32) -> Self {
        let lists = Arc::new(AtomicU32::new(lists));
        Self { lie, lists }
    }

    /// Whether the list that is being made is one of those that lie.
    pub(super) fn take(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let taken = self
            .lists
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.is_ok()
    }
}

impl Lie {
    /// The pod as it is shown.
    pub(super) fn tell(self, pod: &Value) -> Value {
        let mut pod = pod.clone();
        let status = &mut pod["status"];
        status["phase"] = "Failed".into();
        if self == Self::Dead {
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
        pod
    }
}
