//! Narrow lists while a stream continues. Pure.
//!
//! The stream is read meanwhile: its events may show the new owner of a denied IP. A list is sent once the stream has shown
//! everything up to it. So the two agree, or one of them was wrong: no object is missing in the list whose deletion the
//! stream has yet to show.

use super::confirm::patience;
use super::list::{Glimpse, Listed};
use epguard_core::facts::{Name, Part, Selection};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// A narrow list beside a stream, and what the stream has shown since it was asked for.
pub(super) struct Beside<O> {
    pub(super) selection: Selection,
    /// The resourceVersion up to which the stream had shown everything when the list was asked for.
    from: u64,
    /// Objects that changed since then, with their last resourceVersions.
    changed: HashMap<Name, u64>,
    listed: Option<Listed<O>>,
}

/// A list that the stream has caught up with.
pub(super) struct Agreed<O> {
    pub(super) version: u64,
    /// The list, without what the stream has shown in a later state. An object that doesn't parse counts as such: it exists.
    pub(super) part: Part<O>,
    /// Objects, and annotations of objects, that don't parse, and why.
    pub(super) skipped: Vec<(String, anyhow::Error)>,
}

impl<O> Beside<O> {
    /// Begins when a list is asked for; the stream has shown everything up to `from`.
    pub(super) fn new(selection: Selection, from: u64) -> Self {
        Self {
            selection,
            from,
            changed: HashMap::new(),
            listed: None,
        }
    }

    /// Records an object that the stream shows, or shows deleted.
    pub(super) fn note(&mut self, name: &Name, version: u64) {
        self.changed.insert(name.clone(), version);
    }

    /// Takes in the list. It confirms the stream as any consistent list does.
    pub(super) fn came(&mut self, listed: Listed<O>) -> Glimpse {
        let glimpse = Glimpse {
            sent: listed.sent,
            seen: self.from,
            version: listed.version,
            newest: listed.newest,
            objects: None,
            patience: patience(Duration::ZERO),
        };
        self.listed = Some(listed);
        glimpse
    }

    /// True if the list has come, and the stream, which is complete up to `version`, has shown all that it may lack. When
    /// the list was sent proves nothing: a list that is sent later may be answered from an earlier version.
    pub(super) fn is_shown(&self, version: u64) -> bool {
        self.listed
            .as_ref()
            .is_some_and(|listed| listed.version <= version)
    }

    /// The list, once the stream has caught up with it.
    pub(super) fn agreed(self) -> Option<Agreed<O>> {
        let listed = self.listed?;
        let changed = self.changed.into_iter();
        let later = changed.filter(|(_, version)| *version > listed.version);
        let later: BTreeSet<Name> = later.map(|(name, _)| name).collect();
        let objects = listed
            .objects
            .into_iter()
            .filter(|(name, _)| !later.contains(name));
        let part = Part {
            selection: self.selection,
            sent: listed.sent,
            objects: objects.map(|(_, object)| object).collect(),
            later,
        };
        Some(Agreed {
            version: listed.version,
            part,
            skipped: listed.skipped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        ("shop".into(), name.into())
    }

    fn beside() -> Beside<u64> {
        Beside::new(Selection::OnNode("n".into()), 7)
    }

    fn listed(version: u64, names: &[&str]) -> Listed<u64> {
        Listed {
            version,
            sent: Duration::from_secs(1),
            newest: version,
            objects: names.iter().map(|each| (name(each), version)).collect(),
            unreadable: Vec::new(),
            count: names.len(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn an_event_after_the_list_replaces_it_and_an_event_before_it_does_not() {
        let mut beside = beside();
        for (each, version) in [("older", 9), ("changed", 12), ("gone", 13), ("new", 14)] {
            beside.note(&name(each), version);
        }
        let glimpse = beside.came(listed(10, &["older", "changed", "gone", "same"]));
        assert_eq!((glimpse.seen, glimpse.version, glimpse.objects), (7, 10, None));
        let Agreed { version, part, .. } = beside.agreed().unwrap();
        assert_eq!((version, part.objects.len()), (10, 2));
        assert_eq!(part.later, BTreeSet::from(["changed", "gone", "new"].map(name)));
    }

    #[test]
    fn a_list_is_applied_once_the_stream_has_caught_up_with_it() {
        let mut beside = beside();
        assert!(!beside.is_shown(99));
        let _ = beside.came(listed(10, &[]));
        assert!(!beside.is_shown(9));
        assert!(beside.is_shown(10));
    }
}
