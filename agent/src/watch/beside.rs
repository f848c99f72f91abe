//! One more consistent list while a stream continues. Pure.
//!
//! The stream is read meanwhile: its events may show the new owner of a denied IP. The list is sent once the stream
//! has shown everything up to it. So the two agree, or one of them was wrong: no object is missing in the list whose
//! deletion the stream has yet to show.

use super::list::{Glimpse, Listed};
use epguard_core::facts::Name;
use std::collections::HashMap;
use std::time::Duration;

/// A list beside a stream, and what the stream has shown since it was asked for.
pub(super) struct Beside<O> {
    /// The resourceVersion up to which the stream had shown everything when the list was asked for.
    from: u64,
    /// The last state of each object that changed since then; none if it was deleted or cannot be read.
    changed: HashMap<Name, (u64, Option<O>)>,
    listed: Option<Listed<O>>,
}

impl<O> Beside<O> {
    /// Begins when a list is asked for; the stream has shown everything up to `from`.
    pub(super) fn new(from: u64) -> Self {
        Self {
            from,
            changed: HashMap::new(),
            listed: None,
        }
    }

    /// Records an object that the stream shows.
    pub(super) fn note(&mut self, name: Name, version: u64, object: Option<O>) {
        self.changed.insert(name, (version, object));
    }

    /// Takes in the list. It confirms the stream as any consistent list does.
    pub(super) fn came(&mut self, listed: Listed<O>) -> Glimpse {
        let glimpse = Glimpse {
            sent: listed.sent,
            seen: self.from,
            version: listed.version,
            newest: listed.newest,
            objects: Some(listed.count),
            patience: super::confirm::patience(Duration::ZERO),
        };
        self.listed = Some(listed);
        glimpse
    }

    /// True if the list has come, and the stream has shown everything that had happened by `as_of` or earlier.
    pub(super) fn is_shown(&self, as_of: Duration) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.sent <= as_of)
    }

    /// The list with the later changes of the stream, as of the newer of the two.
    pub(super) fn merged(self, shown: u64) -> Option<Listed<O>> {
        let listed = self.listed?;
        let mut objects: HashMap<Name, O> = listed.objects.into_iter().collect();
        let mut count = listed.count;
        for (name, (version, object)) in self.changed {
            if version <= listed.version {
                continue;
            }
            let before = match object {
                Some(object) => {
                    count += 1;
                    objects.insert(name, object)
                }
                None => objects.remove(&name),
            };
            count -= usize::from(before.is_some());
        }
        Some(Listed {
            version: listed.version.max(shown),
            objects: objects.into_iter().collect(),
            count,
            ..listed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        ("shop".to_owned(), name.to_owned())
    }

    fn listed(version: u64, names: &[&str]) -> Listed<u64> {
        Listed {
            version,
            sent: Duration::from_secs(1),
            newest: version,
            objects: names.iter().map(|each| (name(each), version)).collect(),
            count: names.len(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn an_event_after_the_list_replaces_it_and_an_event_before_it_does_not() {
        let mut beside = Beside::new(7);
        beside.note(name("older"), 9, None);
        beside.note(name("changed"), 12, Some(12));
        beside.note(name("gone"), 13, None);
        beside.note(name("new"), 14, Some(14));
        let glimpse = beside.came(listed(10, &["older", "changed", "gone"]));
        assert_eq!((glimpse.seen, glimpse.version, glimpse.objects), (7, 10, Some(3)));
        let merged = beside.merged(14).unwrap();
        let mut objects = merged.objects;
        objects.sort();
        assert_eq!(
            objects,
            [(name("changed"), 12), (name("new"), 14), (name("older"), 10)]
        );
        assert_eq!((merged.version, merged.count), (14, 3));
    }

    #[test]
    fn a_list_is_applied_once_the_stream_has_caught_up_with_it() {
        let mut beside = Beside::new(7);
        assert!(!beside.is_shown(Duration::from_secs(9)));
        let _ = beside.came(listed(10, &[]));
        assert!(!beside.is_shown(Duration::from_millis(999)));
        assert!(beside.is_shown(Duration::from_secs(1)));
    }
}
