//! Faults of an API server that tests switch on at run time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::object::Object;
use super::{Kind, Poison};

/// Faults and timing of one server. The default is a healthy server.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, set by name")]
pub struct Faults {
    /// Killed: open connections break, new ones are reset.
    pub outage: bool,
    /// Stopped: connections stay open, and no request is answered and no event sent, until this is false again.
    pub hang: bool,
    /// Streams that are open send nothing, neither events nor bookmarks; everything else is answered.
    pub mute: bool,
    /// The same for the streams of one kind.
    pub mute_kind: Option<Kind>,
    /// The resourceVersion rises with changes of objects alone. Else it does so by the second, as leases of nodes and controllers
    /// change in a real cluster.
    pub quiet: bool,
    /// Lists show the state of this resourceVersion, and streams send nothing, as behind a caching proxy that is cut off.
    pub cached: Option<u64>,
    /// Requests are answered with this status, 500 or above; streams that are open go on.
    pub failing: Option<u16>,
    /// Kinds answered with 403.
    pub forbidden: BTreeSet<Kind>,
    /// Time added to each request.
    pub delay: Duration,
    /// Time between bookmarks of a stream that asks for them, which gets another one 2 s before it times out; none: it
    /// gets none (but the one after initial events).
    pub bookmark_period: Option<Duration>,
    /// Lists come in pages alone, as from servers before Kubernetes 1.32.
    pub pages_only: bool,
    /// An expired watch gets HTTP 410, as from older servers, and not an ERROR event.
    pub expired_as_http: bool,
    /// False lists of pods.
    pub poisoned: Option<Poison>,
    /// Counts connection resets.
    pub(super) resets: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            outage: false,
            hang: false,
            mute: false,
            mute_kind: None,
            quiet: false,
            cached: None,
            failing: None,
            forbidden: BTreeSet::new(),
            delay: Duration::ZERO,
            bookmark_period: Some(Duration::from_mins(1)),
            pages_only: false,
            expired_as_http: false,
            poisoned: None,
            resets: 0,
        }
    }
}

impl Faults {
    /// Falsifies the objects of a list of pods if a poisoned list is due.
    pub(in crate::api) fn poison(&self, kind: Kind, objects: &mut [Arc<Object>]) {
        let poison = self.poisoned.as_ref().filter(|_| kind == Kind::Pod);
        if let Some(poison) = poison.filter(|poison| poison.take()) {
            for object in objects {
                *object = Arc::new(Object::new(kind, &poison.lie.tell(object.value())));
            }
        }
    }
}
