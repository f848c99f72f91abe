//! Faults of an API server that tests switch on at run time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::Kind;
use super::object::Object;

/// Faults and timing of one server. The default is a healthy server.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, set by name"
)]
pub struct Faults {
    /// Killed: open connections break, new ones are reset.
    pub outage: bool,
    /// Stopped: connections stay open, and no request is answered and no event sent, until this is
    /// false again.
    pub hang: bool,
    /// Open streams of these kinds send nothing, neither events nor bookmarks; everything else is
    /// answered.
    pub mute: BTreeSet<Kind>,
    /// The resourceVersion rises with changes of objects alone. Else it does so by the second, as
    /// leases of nodes and controllers change in a real cluster.
    pub quiet: bool,
    /// Lists show the state of this resourceVersion, and streams send nothing, as behind a caching
    /// proxy that is cut off.
    pub cached: Option<u64>,
    /// Kinds answered with 403.
    pub forbidden: BTreeSet<Kind>,
    /// Time added to each request.
    pub delay: Duration,
    /// Time between bookmarks of a stream that asks for them, which gets another one 2 s before it
    /// times out; none: a minute. With [`Duration::MAX`] it gets none, but the one after initial
    /// events.
    pub bookmark_period: Option<Duration>,
    /// Lists come in pages alone, as from servers before Kubernetes 1.32.
    pub pages_only: bool,
    /// What the next lists of pods show, and how many of them. The watches and later lists are
    /// true, with the same resourceVersions.
    pub poisoned: Option<(Lie, Arc<AtomicU32>)>,
    /// Counts connection resets.
    pub(super) resets: u64,
}

impl Faults {
    /// Falsifies the objects of a list of pods if a poisoned list is due.
    pub(super) fn poison(&self, kind: Kind, objects: &mut [Arc<Object>]) {
        if kind != Kind::Pod {
            return;
        }
        let Some((lie, lists)) = &self.poisoned else {
            return;
        };
        let taken = lists.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        });
        if taken.is_err() {
            return;
        }
        for object in objects {
            let mut pod = object.value();
            match lie {
                Lie::Failed => pod["status"]["phase"] = "Failed".into(),
                Lie::Dead => set_dead_status(&mut pod),
            }
            *object = Arc::new(Object::new(kind, &pod));
        }
    }
}

/// The false status that a poisoned list shows for every pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Phase Failed, and no other change.
    Failed,
    /// Phase Failed, all containers ended, and the network gone.
    Dead,
}

/// Gives a running pod the status of a dead one: phase Failed, all containers ended, and the
/// network gone.
pub fn set_dead_status(pod: &mut Value) {
    let status = &mut pod["status"];
    status["phase"] = "Failed".into();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let ended = ["Ready", "ContainersReady", "PodReadyToStartContainers"];
        if ended.iter().any(|kind| condition["type"] == *kind) {
            condition["status"] = "False".into();
        }
    }
    for container in status["containerStatuses"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let since = container["state"]["running"]["startedAt"].clone();
        container["ready"] = false.into();
        container["started"] = false.into();
        container["state"] = json!({"terminated": {
            "exitCode": 137, "reason": "Error", "startedAt": since, "finishedAt": since,
        }});
    }
}
