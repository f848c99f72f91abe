//! All objects, one global resourceVersion, and what changes them.

mod collection;
mod delete;
mod history;
mod merge;
mod select;

pub(super) use collection::Change;
pub use delete::DeleteOptions;
pub use merge::Patch;
pub(super) use select::Selector;

use super::{ApiError, Kind, ObjectRef};
use collection::Collection;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

/// Changes kept per kind; older ones are gone for watches (410).
const HISTORY: usize = 100_000;
/// Real clusters never show small numbers.
const FIRST_VERSION: u64 = 500;

/// The objects behind one or more servers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    version: u64,
    kinds: BTreeMap<Kind, Collection>,
}

/// Which part of an object a write may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything, as if metadata, spec and status came from those who own them.
    Whole,
    /// All but `status`, where that is a subresource.
    Main,
    /// Only `status`.
    Status,
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// An empty cluster.
    #[must_use]
    pub fn new() -> Self {
        let kinds = Kind::ALL
            .into_iter()
            .map(|kind| (kind, Collection::new(FIRST_VERSION, HISTORY)))
            .collect();
        let state = Mutex::new(State {
            version: FIRST_VERSION,
            kinds,
        });
        Self {
            inner: Arc::new(Inner {
                state,
                changed: watch::Sender::new(FIRST_VERSION),
            }),
        }
    }

    /// Creates an object or merges it into the one that is there, status included, as the object's owners would.
    pub fn apply(&self, object: Value) -> Result<Value, ApiError> {
        let id = ObjectRef::of(&object)?;
        match self.get(&id) {
            None => self.create(object, Part::Whole),
            Some(_) => self.patch(&id, &Patch::Merge(object), Part::Whole),
        }
    }

    /// The object, if there is one.
    #[must_use]
    pub fn get(&self, id: &ObjectRef) -> Option<Value> {
        self.lock()
            .of(id.kind)
            .get(&id.key())
            .map(|object| Value::clone(object))
    }

    /// All objects of a kind.
    #[must_use]
    pub fn list(&self, kind: Kind) -> Vec<Value> {
        self.lock()
            .of(kind)
            .objects()
            .values()
            .map(|object| Value::clone(object))
            .collect()
    }

    /// Merges a JSON merge patch into the whole object.
    pub fn merge(&self, id: &ObjectRef, patch: Value) -> Result<Value, ApiError> {
        self.patch(id, &Patch::Merge(patch), Part::Whole)
    }

    /// resourceVersion of the last change of a kind.
    #[must_use]
    pub fn resource_version(&self, kind: Kind) -> u64 {
        self.lock().of(kind).last
    }

    pub(super) fn create(&self, mut object: Value, part: Part) -> Result<Value, ApiError> {
        name_it(&mut object);
        let id = ObjectRef::of(&object)?;
        if part == Part::Main && id.kind.has_status() {
            object["status"] = json!({});
        }
        let state = self.lock();
        if state.of(id.kind).get(&id.key()).is_some() {
            return Err(ApiError::already_exists(&id));
        }
        let meta = &mut object["metadata"];
        if id.kind.namespaced() {
            meta["namespace"] = json!(id.namespace);
        }
        default(meta, "uid", || json!(uuid::Uuid::new_v4().to_string()));
        default(meta, "creationTimestamp", || json!(delete::in_seconds(0)));
        if id.kind.has_generation() {
            default(meta, "generation", || json!(1));
        }
        object["apiVersion"] = json!(id.kind.api_version());
        if id.kind == Kind::Pod && object["status"]["phase"].is_null() {
            object["status"]["phase"] = json!("Pending");
        }
        Ok(self.commit(state, &id, object, false))
    }

    pub(super) fn replace(&self, id: &ObjectRef, object: Value, part: Part) -> Result<Value, ApiError> {
        self.update(id, part, |_| Ok(object))
    }

    pub(super) fn patch(&self, id: &ObjectRef, patch: &Patch, part: Part) -> Result<Value, ApiError> {
        self.update(id, part, |current| patch.apply(current))
    }

    fn update(
        &self,
        id: &ObjectRef,
        part: Part,
        edit: impl FnOnce(Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let state = self.lock();
        let current = state
            .of(id.kind)
            .get(&id.key())
            .cloned()
            .ok_or_else(|| ApiError::not_found(id))?;
        let mut wanted = edit(Value::clone(&current))?;
        let asked = wanted["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !asked.is_empty() && current["metadata"]["resourceVersion"] != asked {
            return Err(ApiError::conflict(format!(
                "{id}: the object has been modified; apply your changes to the latest version"
            )));
        }
        if id.kind.has_status() {
            match part {
                Part::Whole => {}
                Part::Main => wanted["status"] = current["status"].clone(),
                Part::Status => {
                    let status = wanted["status"].take();
                    let fields = wanted["metadata"]["managedFields"].take();
                    wanted = Value::clone(&current);
                    wanted["status"] = status;
                    wanted["metadata"]["managedFields"] = fields;
                }
            }
        }
        for fixed in ["uid", "name", "namespace", "creationTimestamp", "resourceVersion"] {
            wanted["metadata"][fixed] = current["metadata"][fixed].clone();
        }
        for kind in ["kind", "apiVersion"] {
            wanted[kind] = current[kind].clone();
        }
        prune(&mut wanted["metadata"]);
        if wanted == *current {
            return Ok(wanted);
        }
        let meta = &wanted["metadata"];
        let free = meta["finalizers"].as_array().is_none_or(Vec::is_empty);
        let given_up = meta["deletionTimestamp"].is_string() && meta["deletionGracePeriodSeconds"] == 0;
        let gone = given_up && free && current["metadata"]["finalizers"].is_array();
        Ok(self.commit(state, id, wanted, gone))
    }

    fn commit(
        &self,
        mut state: MutexGuard<'_, State>,
        id: &ObjectRef,
        mut object: Value,
        deleted: bool,
    ) -> Value {
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        state
            .of_mut(id.kind)
            .record(version, id.key(), Arc::new(object.clone()), deleted);
        drop(state);
        self.announce();
        object
    }

    fn announce(&self) {
        self.inner.changed.send_modify(|count| *count += 1);
    }

    /// The global resourceVersion.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn of(&self, kind: Kind) -> &Collection {
        &self.kinds[&kind]
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Collection {
        self.kinds
            .entry(kind)
            .or_insert_with(|| Collection::new(FIRST_VERSION, HISTORY))
    }
}

fn name_it(object: &mut Value) {
    let meta = &mut object["metadata"];
    if let (None, Some(prefix)) = (meta["name"].as_str(), meta["generateName"].as_str()) {
        let random = uuid::Uuid::new_v4().simple().to_string();
        meta["name"] = json!(format!("{prefix}{}", &random[..5]));
    }
}

fn default(object: &mut Value, field: &str, value: impl FnOnce() -> Value) {
    if object[field].is_null() {
        object[field] = value();
    }
}

fn prune(meta: &mut Value) {
    if let Some(meta) = meta.as_object_mut() {
        meta.retain(|_, value| !value.is_null());
    }
}
