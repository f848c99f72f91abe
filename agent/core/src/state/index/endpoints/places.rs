//! Where slices list each pod, and under which names.

use crate::facts::PodName;
use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;

/// The IPs at which slices list a pod, or did recently, and the names that they give to it.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Places {
    /// The first name that a slice gave to the pod at the IP.
    first: SortedMap<(Uid, Addr), Option<PodName>>,
    /// All other names, and those of places that are gone.
    further: BTreeSet<(Uid, PodName)>,
    by_name: SortedMap<(PodName, Uid), ()>,
}

impl Places {
    /// A slice lists the UID at the IP, under this name. A slice that gives another name adds to the first one. True if the UID did
    /// not have the name.
    pub(in crate::state) fn add(&mut self, uid: Uid, ip: Addr, name: Option<PodName>) -> bool {
        let first = self.first.or_default((uid, ip));
        let Some(name) = name else { return false };
        if *first.get_or_insert(name) != name {
            self.further.insert((uid, name));
        }
        self.by_name.insert((name, uid), ()).is_none()
    }

    /// Removes a place that no slice lists, or listed recently. With the last one of a UID its names go.
    pub(in crate::state) fn remove(&mut self, uid: Uid, ip: Addr) {
        let Some(name) = self.first.get(&(uid, ip)).copied() else {
            return;
        };
        self.first.remove(&(uid, ip));
        if self.knows(uid) {
            let lost = name.filter(|name| self.names(uid).all(|other| other != *name));
            self.further.extend(lost.map(|name| (uid, name)));
            return;
        }
        let names: Vec<PodName> = self.names(uid).chain(name).collect();
        for name in names {
            self.further.remove(&(uid, name));
            self.by_name.remove(&(name, uid));
        }
    }

    /// True if a slice lists the UID, or did recently.
    pub(in crate::state) fn knows(&self, uid: Uid) -> bool {
        self.ips(uid).next().is_some()
    }

    /// The IPs of a UID.
    pub(in crate::state) fn ips(&self, uid: Uid) -> impl Iterator<Item = Addr> {
        self.of(uid).map(|(ip, _)| ip)
    }

    /// The names of a UID, some more than once.
    pub(in crate::state) fn names(&self, uid: Uid) -> impl Iterator<Item = PodName> {
        let range = (uid, PodName::MIN)..=(uid, PodName::MAX);
        let further = self.further.range(range).map(|(_, name)| *name);
        self.of(uid).filter_map(|(_, name)| name).chain(further)
    }

    /// The UIDs of a name.
    pub(in crate::state) fn uids(&self, name: PodName) -> impl Iterator<Item = Uid> {
        let after = self.by_name.from((name, Uid::NONE)).map(|(pair, ())| pair);
        after.take_while(move |(known, _)| *known == name).map(|(_, uid)| *uid)
    }

    fn of(&self, uid: Uid) -> impl Iterator<Item = (Addr, Option<PodName>)> {
        let places = self.first.from((uid, Addr { octets: [0; 16] }));
        let places = places.take_while(move |((own, _), _)| *own == uid);
        places.map(|((_, ip), name)| (*ip, *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Addr = Addr::v4([10, 244, 1, 10]);
    const Y: Addr = Addr::v4([10, 244, 1, 11]);

    fn names(places: &Places, uid: Uid) -> BTreeSet<PodName> {
        places.names(uid).collect()
    }

    #[test]
    fn a_uid_is_found_by_each_of_its_names_until_its_last_place_is_removed() {
        let [a, b] = ["a", "b"].map(|text| Uid::parse(text).unwrap());
        let [pg, web] = ["pg-0", "web"].map(|name| PodName::new("db", name));
        let mut places = Places::default();
        for (uid, name) in [(a, Some(pg)), (a, Some(web)), (b, Some(pg)), (b, None)] {
            places.add(uid, X, name);
        }
        assert_eq!(names(&places, a), BTreeSet::from([pg, web]));
        assert_eq!(places.uids(pg).collect::<BTreeSet<_>>(), BTreeSet::from([a, b]));
        places.remove(a, X);
        assert!(!places.knows(a) && places.names(a).next().is_none());
        assert_eq!(places.uids(pg).collect::<Vec<_>>(), [b]);
        assert_eq!(places.uids(web).count(), 0);
    }

    #[test]
    fn a_uid_keeps_its_names_while_a_slice_lists_it_anywhere() {
        let a = Uid::parse("a").unwrap();
        let [pg, web] = ["pg-0", "web"].map(|name| PodName::new("db", name));
        let mut places = Places::default();
        places.add(a, X, Some(pg));
        places.add(a, Y, Some(web));
        places.remove(a, X);
        assert_eq!(names(&places, a), BTreeSet::from([pg, web]));
        assert_eq!(places.ips(a).collect::<Vec<_>>(), [Y]);
        places.remove(a, Y);
        assert_eq!(places.uids(pg).chain(places.uids(web)).count(), 0);
        assert!(places.further.is_empty());
    }
}
