//! The objects of one kind and their history.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::KEPT_CHANGES;
use crate::api::ApiError;
use crate::api::object::Object;

/// One change, as watches send it.
#[derive(Debug)]
pub(crate) struct ObjectChange {
    pub(crate) rv: u64,
    key: String,
    /// The new state; for a deletion the last state with the deletion's resourceVersion.
    pub(crate) object: Arc<Object>,
    /// The state before; none for a new object.
    pub(crate) previous: Option<Arc<Object>>,
    pub(crate) deleted: bool,
}

/// By `namespace/name`, in the order of lists.
pub(super) type Objects = BTreeMap<String, Arc<Object>>;

/// Objects of one kind, their recent changes, and the resourceVersions that both cover.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    pub(super) objects: Objects,
    /// In the order of their resourceVersions.
    history: VecDeque<Arc<ObjectChange>>,
    /// resourceVersion of the last change that is no longer kept.
    dropped: u64,
    /// Lists and new watches from resourceVersions below this one are expired; open streams go on.
    pub(super) floor: u64,
    /// resourceVersion of the last change.
    pub(super) last: u64,
}

impl Collection {
    /// Stores a new state (or, if `deleted`, the last one) and appends it to the history.
    pub(super) fn record(&mut self, rv: u64, key: String, object: Arc<Object>, deleted: bool) {
        let previous = if deleted {
            self.objects.remove(&key)
        } else {
            self.objects.insert(key.clone(), Arc::clone(&object))
        };
        self.last = rv;
        self.history.push_back(Arc::new(ObjectChange {
            rv,
            key,
            object,
            previous,
            deleted,
        }));
        if self.history.len() > KEPT_CHANGES {
            self.dropped = self.history.pop_front().map_or(0, |change| change.rv);
            self.floor = self.floor.max(self.dropped);
        }
    }

    /// 410 unless lists and watches can begin at `rv`.
    pub(crate) fn check(&self, rv: u64) -> Result<(), ApiError> {
        if rv < self.floor {
            return Err(ApiError::expired(format!(
                "too old resource version: {rv} ({})",
                self.floor
            )));
        }
        Ok(())
    }

    /// Changes after `rv` for an open stream; expired if some of them are no longer kept.
    pub(crate) fn since(&self, rv: u64) -> Result<Vec<Arc<ObjectChange>>, ApiError> {
        if rv < self.dropped {
            return Err(ApiError::expired(
                "too old resource version: the stream fell behind the kept history",
            ));
        }
        Ok(self.after(rv).cloned().collect())
    }

    fn after(&self, rv: u64) -> impl DoubleEndedIterator<Item = &Arc<ObjectChange>> {
        self.history
            .range(self.history.partition_point(|change| change.rv <= rv)..)
    }

    /// The objects as they were at `rv`: the current ones, but for those that have changed since.
    pub(super) fn at(&self, rv: u64) -> Result<Cow<'_, Objects>, ApiError> {
        self.check(rv)?;
        let mut objects = Cow::Borrowed(&self.objects);
        for change in self.after(rv).rev() {
            match &change.previous {
                Some(previous) => objects
                    .to_mut()
                    .insert(change.key.clone(), Arc::clone(previous)),
                None => objects.to_mut().remove(&change.key),
            };
        }
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Kind;
    use serde_json::json;

    fn record(
        all: &mut Collection,
        changes: impl IntoIterator<Item = (u64, &'static str, u64, bool)>,
    ) {
        for (rv, key, value, deleted) in changes {
            all.record(
                rv,
                key.into(),
                Arc::new(Object::new(Kind::Pod, &json!(value))),
                deleted,
            );
        }
    }

    #[test]
    fn an_old_state_is_rebuilt_from_the_history() {
        let mut all = Collection::default();
        record(
            &mut all,
            [
                (301, "a", 1, false),
                (302, "b", 2, false),
                (303, "a", 3, false),
                (304, "b", 2, true),
            ],
        );
        for (rv, expected) in [
            (300, ""),
            (301, "a=1"),
            (302, "a=1 b=2"),
            (303, "a=3 b=2"),
            (304, "a=3"),
        ] {
            let objects = all.at(rv).unwrap().into_owned().into_iter();
            let shown = objects.map(|(key, object)| format!("{key}={}", object.value()));
            assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{rv}");
        }
    }

    #[test]
    fn a_version_older_than_the_history_is_expired() {
        let mut all = Collection::default();
        let last = 300 + KEPT_CHANGES as u64;
        record(&mut all, (301..=last).map(|rv| (rv, "a", rv, false)));
        assert_eq!(all.since(300).unwrap().len(), KEPT_CHANGES);
        record(&mut all, [(last + 1, "a", 0, false)]);
        assert_eq!([300, 301].map(|rv| all.check(rv).is_ok()), [false, true]);
        assert_eq!(all.at(300).err().unwrap().code, 410);
        assert_eq!(all.since(300).unwrap_err().code, 410);
        assert_eq!(
            [301, last + 1].map(|rv| all.since(rv).unwrap().len()),
            [KEPT_CHANGES, 0]
        );
    }
}
