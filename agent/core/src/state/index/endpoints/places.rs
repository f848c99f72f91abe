//! Where slices list each pod, and under which names.

use crate::facts::PodName;
use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Uid};

/// More names than slices give to a pod: a targetRef that is re-used has one or two.
const NAMES: usize = 8;
/// All names but the first one of each UID. Who writes slices can invent as many as he likes.
const FURTHER: usize = 16_384;

/// The IPs at which slices list a pod, or did recently, and the names that they give to it.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// How many endpoints name the pod at each.
    at: SortedMap<(Uid, Addr), u32>,
    names: SortedMap<(Uid, PodName), ()>,
    by_name: SortedMap<(PodName, Uid), ()>,
    further: usize,
}

impl Places {
    /// An endpoint at the IP names the UID from now on.
    pub fn add(&mut self, uid: Uid, ip: Addr) {
        match self.at.get_mut(&(uid, ip)) {
            Some(endpoints) => *endpoints += 1,
            None => drop(self.at.insert((uid, ip), 1)),
        }
    }

    /// A slice lists the UID under this name. True if the UID did not have the name. One beyond those that are kept stands for every
    /// name ([`PodName::ANY`]).
    pub fn name(&mut self, uid: Uid, name: PodName) -> bool {
        if [name, PodName::ANY].iter().any(|name| self.by_name.contains_key(&(*name, uid))) {
            return false;
        }
        let known = self.names(uid).count();
        let is_kept = known == 0 || known < NAMES && self.further < FURTHER;
        let name = if is_kept { name } else { PodName::ANY };
        self.further += usize::from(known > 0);
        self.names.insert((uid, name), ());
        self.by_name.insert((name, uid), ());
        true
    }

    /// An endpoint at the IP names the UID no more. With the last place of a UID its names go.
    pub fn remove(&mut self, uid: Uid, ip: Addr) {
        let Some(endpoints) = self.at.get_mut(&(uid, ip)) else { return };
        *endpoints -= 1;
        if *endpoints > 0 || !self.at.remove(&(uid, ip)) || self.knows(uid) {
            return;
        }
        let names: Vec<PodName> = self.names(uid).collect();
        self.further -= names.len().saturating_sub(1);
        for name in names {
            self.names.remove(&(uid, name));
            self.by_name.remove(&(name, uid));
        }
    }

    /// True if a slice lists the UID, or did recently.
    pub fn knows(&self, uid: Uid) -> bool {
        self.ips(uid).next().is_some()
    }

    /// The IPs of a UID.
    pub fn ips(&self, uid: Uid) -> impl Iterator<Item = Addr> {
        let places = self.at.from((uid, Addr { octets: [0; 16] }));
        places.take_while(move |((own, _), _)| *own == uid).map(|((_, ip), _)| *ip)
    }

    /// The names of a UID.
    pub fn names(&self, uid: Uid) -> impl Iterator<Item = PodName> {
        let names = self.names.from((uid, PodName::MIN));
        names.take_while(move |((own, _), ())| *own == uid).map(|((_, name), ())| *name)
    }

    /// The UIDs of a name.
    pub fn uids(&self, name: PodName) -> impl Iterator<Item = Uid> {
        let after = self.by_name.from((name, Uid::NONE)).map(|(pair, ())| pair);
        after.take_while(move |(known, _)| *known == name).map(|(_, uid)| *uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Addr = Addr::v4([10, 244, 1, 10]);

    #[test]
    fn a_name_beyond_those_that_are_kept_stands_for_every_name() {
        let [a, b] = ["a", "b"].map(|text| Uid::parse(text).unwrap());
        let mut places = Places::default();
        places.add(a, X);
        let mut add = |uid, name: usize| places.name(uid, PodName::new("db", &name.to_string()));
        let new: usize = (0..1_000).map(|name| usize::from(add(a, name))).sum();
        assert_eq!((new, add(b, 1)), (NAMES + 1, true));
        assert!(places.names(a).any(|name| name == PodName::ANY));
        assert_eq!((places.names(b).count(), places.further), (1, NAMES));
        places.remove(a, X);
        assert_eq!((places.names(a).count(), places.further), (0, 0));
    }
}
