//! Namespace and name of the pods that slices list, by UID and back.

use crate::facts::PodName;
use epguard_common::Uid;
use std::collections::BTreeSet;

/// Which names slices give to which UIDs.
#[derive(Debug, Clone, Default)]
pub(super) struct TargetNames {
    by_uid: BTreeSet<(Uid, PodName)>,
    by_name: BTreeSet<(PodName, Uid)>,
}

impl TargetNames {
    /// A slice lists the UID under this name. A slice that gives another name adds to the first one.
    pub(super) fn add(&mut self, uid: Uid, name: Option<PodName>) {
        if let Some(name) = name {
            self.by_uid.insert((uid, name));
            self.by_name.insert((name, uid));
        }
    }

    /// Removes a UID that no slice lists, or listed recently.
    pub(super) fn forget(&mut self, uid: Uid) {
        let names: Vec<PodName> = self.of(uid).collect();
        for name in names {
            self.by_uid.remove(&(uid, name));
            self.by_name.remove(&(name, uid));
        }
    }

    /// The names of a UID.
    pub(super) fn of(&self, uid: Uid) -> impl Iterator<Item = PodName> {
        let range = (uid, PodName::MIN)..=(uid, PodName::MAX);
        self.by_uid.range(range).map(|(_, name)| *name)
    }

    /// The UIDs of a name.
    pub(super) fn uids(&self, name: PodName) -> impl Iterator<Item = Uid> {
        let after = self.by_name.range((name, Uid::NONE)..);
        after
            .take_while(move |(known, _)| *known == name)
            .map(|(_, uid)| *uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_found_by_each_of_its_names_until_it_is_removed() {
        let [a, b] = ["a", "b"].map(|text| Uid::parse(text).unwrap());
        let [pg, web] = ["pg-0", "web"].map(|name| PodName::new("db", name));
        let mut names = TargetNames::default();
        for (uid, name) in [(a, Some(pg)), (a, Some(web)), (b, Some(pg)), (b, None)] {
            names.add(uid, name);
        }
        assert_eq!(names.of(a).collect::<BTreeSet<_>>(), BTreeSet::from([pg, web]));
        assert_eq!(names.uids(pg).collect::<BTreeSet<_>>(), BTreeSet::from([a, b]));
        names.forget(a);
        assert_eq!(names.of(a).count(), 0);
        assert_eq!(names.uids(pg).collect::<Vec<_>>(), [b]);
        assert_eq!(names.uids(web).count(), 0);
    }
}
