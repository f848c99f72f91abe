//! The objects of one kind and their history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::ops::Bound::{self, Unbounded};
use std::sync::Arc;

use crate::api::ApiError;
use crate::api::object::Object;

/// Objects by `namespace/name`, in the order of lists.
type Objects = BTreeMap<String, Arc<Object>>;

/// One change, as watches send it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) rv: u64,
    pub(super) key: String,
    /// The new state; for a deletion the last state with the deletion's resourceVersion.
    pub(crate) object: Arc<Object>,
    /// The state before; none for a new object.
    pub(crate) previous: Option<Arc<Object>>,
    pub(crate) deleted: bool,
}

/// Objects of one kind, their recent changes, and the resourceVersions that both cover.
#[derive(Debug)]
pub(super) struct Collection {
    objects: Objects,
    history: VecDeque<Arc<Change>>,
    /// Number of changes ever recorded, which is also the history position after the last one. It only grows, unlike the
    /// resourceVersions of a recording.
    end: u64,
    /// Lists and watches from resourceVersions below this one are expired.
    floor: u64,
    /// resourceVersion of the last change.
    pub(super) last: u64,
    keep: usize,
    /// During a relist: keys that the new list has not shown yet.
    pub(super) unseen: Option<BTreeSet<String>>,
}

impl Collection {
    /// An empty collection that begins at `rv` and keeps the last `keep` changes.
    pub(super) fn new(rv: u64, keep: usize) -> Self {
        Self {
            objects: Objects::new(),
            history: VecDeque::new(),
            end: 0,
            floor: rv,
            last: rv,
            keep,
            unseen: None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Stores a new state (or, if `deleted`, the last one) and appends it to the history.
    pub(super) fn record(&mut self, rv: u64, key: String, object: Arc<Object>, deleted: bool) {
        let previous = if deleted {
            self.objects.remove(&key)
        } else {
            self.objects.insert(key.clone(), Arc::clone(&object))
        };
        self.last = self.last.max(rv);
        self.end += 1;
        self.history.push_back(Arc::new(Change { rv, key, object, previous, deleted }));
        while self.history.len() > self.keep {
            self.floor = self.floor.max(self.history.pop_front().map_or(0, |c| c.rv));
        }
    }

    /// Makes lists and watches from before `rv` fail as expired; open streams go on.
    pub(super) fn forget_before(&mut self, rv: u64) {
        self.floor = self.floor.max(rv);
    }

    /// The history position after the last change.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Changes from history position `seq` on; expired if some of them are no longer kept.
    pub(super) fn since(&self, seq: u64) -> Result<Vec<Arc<Change>>, ApiError> {
        let kept = self.end - self.history.len() as u64;
        let skip = seq.checked_sub(kept).ok_or_else(|| {
            ApiError::expired("too old resource version: the stream fell behind the kept history")
        })?;
        Ok(self.history.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)).cloned().collect())
    }

    /// Changes after resourceVersion `rv`.
    pub(super) fn after(&self, rv: u64) -> Result<Vec<Arc<Change>>, ApiError> {
        self.check(rv)?;
        Ok(self.history.iter().filter(|c| c.rv > rv).cloned().collect())
    }

    /// The objects as they were at `rv`.
    pub(super) fn at(&self, rv: u64) -> Result<Snapshot<'_>, ApiError> {
        self.check(rv)?;
        let mut before = BTreeMap::new();
        if rv < self.last {
            for change in self.history.iter().rev().filter(|c| c.rv > rv) {
                before.insert(change.key.as_str(), change.previous.as_ref());
            }
        }
        Ok(Snapshot { objects: &self.objects, before })
    }

    fn check(&self, rv: u64) -> Result<(), ApiError> {
        if rv < self.floor {
            return Err(ApiError::expired(format!("too old resource version: {rv} ({})", self.floor)));
        }
        Ok(())
    }
}

/// The objects at one resourceVersion: the current ones, but for those that have changed since. It costs nothing for objects that
/// have not.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    objects: &'a Objects,
    /// The earlier state of what has changed since; none: it did not exist.
    before: BTreeMap<&'a str, Option<&'a Arc<Object>>>,
}

impl<'a> Snapshot<'a> {
    /// The objects from a key on, in the order of their keys.
    pub(super) fn range(&self, from: Bound<&str>) -> impl Iterator<Item = (&'a str, &'a Arc<Object>)> {
        let unchanged = self.objects.range::<str, _>((from, Unbounded));
        let unchanged = unchanged.map(|(key, object)| (key.as_str(), object));
        let mut unchanged = unchanged.filter(|(key, _)| !self.before.contains_key(key)).peekable();
        let changed = self.before.range::<str, _>((from, Unbounded));
        let mut changed = changed.filter_map(|(key, object)| Some((*key, (*object)?))).peekable();
        iter::from_fn(move || match (unchanged.peek(), changed.peek()) {
            (Some((next, _)), Some((other, _))) if next < other => unchanged.next(),
            (_, Some(_)) => changed.next(),
            (_, None) => unchanged.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Kind;
    use serde_json::json;

    fn collection(keep: usize) -> Collection {
        let object = |number: i32| Arc::new(Object::new(Kind::Pod, &json!(number)));
        let mut c = Collection::new(10, keep);
        c.record(11, "a".into(), object(1), false);
        c.record(12, "b".into(), object(2), false);
        c.record(13, "a".into(), object(3), false);
        c.record(14, "b".into(), object(2), true);
        c
    }

    #[test]
    fn an_old_state_is_rebuilt_from_the_history() {
        let c = collection(100);
        let shown = |rv| {
            c.at(rv)
                .unwrap()
                .range(Unbounded)
                .map(|(k, v)| format!("{k}={}", v.value()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            [shown(10), shown(11), shown(12), shown(13), shown(14)],
            ["", "a=1", "a=1 b=2", "a=3 b=2", "a=3"]
        );
    }

    #[test]
    fn a_version_older_than_the_history_is_expired() {
        let c = collection(2);
        assert_eq!(c.at(11).unwrap_err().code, 410);
        assert_eq!(c.after(12).unwrap().len(), 2);
        assert_eq!(c.since(1).unwrap_err().code, 410);
        assert_eq!(c.since(2).unwrap().len(), 2);
        assert_eq!(c.since(c.end()).unwrap().len(), 0);
    }
}
