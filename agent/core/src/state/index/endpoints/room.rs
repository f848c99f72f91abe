//! How many endpoints there is room for, and the slices that are left out.

use super::EndpointIndex;
use super::endpoint_index::OF_NAMESPACE;
use super::slice_part::SlicePart;
use crate::counts::uncount;
use crate::facts::{ObjectName, Slice};
use crate::state::index::changed::Changed;
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// Those of one Service at one IP: all ports that a Service may have, of a pod and of the one
/// before it. The endpoints of an IP are judged at once.
const OF_IP: usize = 2_048;

/// Services of one namespace with endpoints. A change of a pod concerns all that list it, at once.
const SERVICES: usize = 1_500;

/// IPs at which slices of a namespace list one pod: more than a pod has on all its networks. A
/// change of the pod concerns all of them.
const OF_POD: usize = 64;

impl EndpointIndex {
    /// What is kept of a slice: nothing but its name and Service if all slices of its namespace
    /// would list too much.
    pub(super) fn bounded(&self, slice: Slice) -> Slice {
        let kept = self
            .kept
            .get(&slice.name.namespace)
            .copied()
            .unwrap_or_default();
        if kept + slice.pairs() <= OF_NAMESPACE {
            slice
        } else {
            slice.emptied()
        }
    }

    /// Keeps a slice, listed or left out.
    pub(super) fn keep(&mut self, slice: Slice) {
        if slice.pairs() > 0 {
            *self.kept.entry(slice.name.namespace.clone()).or_default() += slice.pairs();
        }
        self.slices.insert(slice.name.clone(), slice.into());
    }

    /// Removes a slice; none if there was none, or it was left out.
    pub(super) fn take_out(
        &mut self,
        name: &ObjectName,
        changed: &mut Changed,
    ) -> Option<Box<Slice>> {
        let slice = self.slices.remove(name)?;
        uncount(&mut self.kept, &name.namespace, slice.pairs());
        if !self.left_out.remove(name, slice.service.clone(), []) {
            return Some(slice);
        }
        if let Some(service) = &slice.service {
            changed.endpoints_of(service).all = true;
        }
        None
    }

    /// True if there is room for what the endpoints add: in the index, at each of their IPs, and
    /// for each of their pods.
    pub(super) fn has_room(&self, new: &SlicePart<'_>) -> bool {
        let known = self.services.get(new.service);
        let mut added: BTreeMap<Addr, usize> = BTreeMap::new();
        let mut pods: BTreeMap<Uid, BTreeSet<Addr>> = BTreeMap::new();
        for (endpoint, shown, _) in new.named() {
            if known.is_some_and(|known| known.endpoints.contains_key(&(endpoint, shown.target))) {
                continue;
            }
            *added.entry(endpoint.ip).or_default() += 1;
            if let Some(uid) = shown.target {
                pods.entry(uid).or_default().insert(endpoint.ip);
            }
        }
        let namespace = &new.service.namespace;
        let services = self
            .of_namespaces
            .get(namespace)
            .copied()
            .unwrap_or_default();
        (known.is_some() || services < SERVICES)
            && self.names_few_namespaces(new)
            && self.room.admits(namespace, added.values().sum())
            && added
                .iter()
                .all(|(ip, added)| self.count_at(new.service, *ip) + added <= OF_IP)
            && pods
                .into_iter()
                .all(|(uid, ips)| self.has_room_for(namespace, uid, ips))
    }

    /// True if the Service's slices still name few namespaces with these endpoints. Each judgement
    /// compares pods with all of them.
    fn names_few_namespaces(&self, new: &SlicePart<'_>) -> bool {
        let known = self.namespaces_of(new.service);
        let added = new
            .slice
            .namespaces
            .iter()
            .filter(|namespace| !known.contains(namespace));
        known.len() + added.count() <= Slice::MOST_NAMESPACES
    }

    /// True if slices of the namespace may list the pod at these IPs, too. Whatever those of others
    /// list is their own affair.
    fn has_room_for(&self, namespace: &str, uid: Uid, mut ips: BTreeSet<Addr>) -> bool {
        let is_own = |ip: &Addr| {
            let mut services = self
                .services_at(*ip)
                .filter(|service| service.namespace == namespace);
            services.any(|service| self.names(service, *ip, uid))
        };
        ips.extend(self.places.ips(uid).filter(is_own));
        ips.len() <= OF_POD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Protocol, SlicePort, Text, listing};
    use crate::state::MEMORY;
    use crate::state::index::endpoints::endpoint_index::OF_ALL;
    use std::time::Duration;

    const NOW: Duration = Duration::from_secs(1);

    fn named(namespace: &str, name: &str) -> ObjectName {
        ObjectName::new(namespace, name)
    }

    fn ips(count: usize) -> impl Iterator<Item = Addr> {
        let numbers = 1..=u32::try_from(count).unwrap();
        numbers.map(|number| Addr::v4((number + (10 << 24)).to_be_bytes()))
    }

    /// A slice `name` of Service `flood/web`, with so many addresses.
    fn slice(name: &str, addresses: usize) -> Slice {
        let service = Some(named("flood", "web"));
        Slice {
            service,
            ..listing(&named("flood", name), ips(addresses))
        }
    }

    fn is_left_out(index: &EndpointIndex, name: &str) -> bool {
        index.left_out.all.contains(&named("flood", name))
    }

    #[test]
    fn a_namespace_fills_at_most_half_of_the_index_and_gets_room_that_is_given_back() {
        let mut endpoint_index = EndpointIndex::default();
        endpoint_index.room.take("others".into(), OF_ALL - 8);
        let mut list = |namespace: &str, name: &str, endpoints: usize| {
            let name = named(namespace, name);
            endpoint_index.set(NOW, &name, Some(listing(&name, ips(endpoints))));
            endpoint_index.leaves_out(&name)
        };
        assert!(list("flood", "a", 9));
        assert!(!list("flood", "a", 4));
        assert!(
            !list("flood", "a", 4),
            "what is listed already takes no more room"
        );
        assert!(list("flood", "b", 1));
        assert!(!list("shop", "web", 2));
        endpoint_index.set(NOW, &named("flood", "a"), None);
        endpoint_index.set(NOW, &named("shop", "web"), None);
        assert!(is_left_out(&endpoint_index, "b"));
        endpoint_index.retry(NOW, &mut Changed::default());
        assert!(is_left_out(&endpoint_index, "b"));
        let later = NOW + MEMORY * 2;
        endpoint_index.expire(later);
        endpoint_index.retry(later, &mut Changed::default());
        assert!(!is_left_out(&endpoint_index, "b"));
    }

    #[test]
    fn of_slices_beyond_what_a_namespace_may_list_nothing_is_kept_until_they_are_shown_again() {
        let mut index = EndpointIndex::default();
        let most = OF_NAMESPACE / 1_024;
        for number in 0..2 * most {
            let slice = slice(&number.to_string(), 1_024);
            index.set(NOW, &slice.name.clone(), Some(slice));
        }
        let kept = |index: &EndpointIndex| -> usize {
            index.slices.values().map(|slice| slice.pairs()).sum()
        };
        assert_eq!((index.slices.len(), kept(&index)), (2 * most, OF_NAMESPACE));
        assert_eq!(index.left_out.all.len(), most);
        let last = slice(&(2 * most - 1).to_string(), 1_024);
        index.set(NOW, &named("flood", "0"), None);
        index.retry(NOW, &mut Changed::default());
        assert!(is_left_out(&index, &last.name.name));
        index.set(NOW, &last.name.clone(), Some(last.clone()));
        assert!(!is_left_out(&index, &last.name.name));
        assert_eq!(kept(&index), OF_NAMESPACE);
    }

    #[test]
    fn slices_of_a_service_name_pods_of_few_namespaces_or_wait() {
        let mut index = EndpointIndex::default();
        let mut names = |slice_name: &str, first: usize, count: usize| {
            let namespaces = (first..first + count)
                .map(|number| format!("n{number}").into())
                .collect();
            index.set(
                NOW,
                &named("flood", slice_name),
                Some(Slice {
                    namespaces,
                    ..slice(slice_name, 1)
                }),
            );
            is_left_out(&index, slice_name)
        };
        assert!(!names("a", 0, Slice::MOST_NAMESPACES));
        assert!(
            !names("b", 0, Slice::MOST_NAMESPACES),
            "they are named already"
        );
        assert!(names("c", 1, Slice::MOST_NAMESPACES));
        assert_eq!(
            index.namespaces_of(&named("flood", "web")).len(),
            Slice::MOST_NAMESPACES
        );
    }

    #[test]
    fn nothing_is_kept_of_a_slice_without_a_service() {
        let mut index = EndpointIndex::default();
        index.set(NOW, &named("flood", "a"), Some(slice("a", 4)));
        assert_eq!(
            (index.slices.len(), index.kept[&Text::from("flood")]),
            (1, 4)
        );
        index.set(
            NOW,
            &named("flood", "a"),
            Some(Slice {
                service: None,
                ..slice("a", 4)
            }),
        );
        assert_eq!((index.slices.len(), index.kept.len()), (0, 0));
    }

    #[test]
    fn a_slice_that_would_list_too_many_targets_at_one_ip_waits_until_others_there_are_gone() {
        let port = |number: usize| SlicePort {
            port: u16::try_from(number).unwrap(),
            protocol: Protocol::Tcp,
            ..slice("a", 0).ports[0]
        };
        let ports = |name: &str, first: usize, count: usize| {
            let ports = (first..first + count).map(port).collect();
            Slice {
                ports,
                ..slice(name, 1)
            }
        };
        let mut index = EndpointIndex::default();
        let mut set = |slice: Slice| {
            let name = slice.name.clone();
            index.set(NOW, &name, Some(slice));
            index.left_out.all.contains(&name)
        };
        assert!(!set(ports("a", 1, OF_IP)));
        assert!(
            !set(ports("b", 1, OF_IP)),
            "what another one lists already takes no more room"
        );
        assert!(set(ports("c", 5_000, 1)));
        assert_eq!(
            index.count_at(&named("flood", "web"), ips(1).next().unwrap()),
            OF_IP
        );
        index.set(NOW, &named("flood", "a"), None);
        index.set(NOW, &named("flood", "b"), None);
        index.retry(NOW, &mut Changed::default());
        assert!(
            is_left_out(&index, "c"),
            "what was listed until now is kept for a while"
        );
        index.expire(NOW + MEMORY * 2);
        index.retry(NOW + MEMORY * 2, &mut Changed::default());
        assert!(!is_left_out(&index, "c"));
    }

    #[test]
    fn a_pod_is_listed_at_no_more_ips_than_a_pod_has_and_those_of_other_namespaces_do_not_count() {
        let of = |namespace: &str, name: &str, first: usize, count: usize| {
            let target = Uid::parse("pod");
            let mut slice = listing(&named(namespace, name), ips(first + count).skip(first));
            slice
                .endpoints
                .iter_mut()
                .for_each(|endpoint| endpoint.target = target);
            slice
        };
        let mut index = EndpointIndex::default();
        let mut is_listed = |slice: Slice| {
            index.set(NOW, &slice.name.clone(), Some(slice.clone()));
            !index.left_out.all.contains(&slice.name)
        };
        assert!(
            is_listed(of("flood", "a", 0, OF_POD / 2)) && is_listed(of("flood", "b", 0, OF_POD))
        );
        assert!(
            is_listed(of("flood", "b", 1, OF_POD - 1)),
            "what was listed until now is known"
        );
        assert!(!is_listed(of("flood", "c", OF_POD, 1)));
        assert!(is_listed(of("shop", "web", 0, OF_POD)));
    }

    #[test]
    fn one_turn_takes_in_about_as_many_endpoints_as_one_slice_may_have() {
        let mut index = EndpointIndex::default();
        index.room.take("flood".into(), OF_NAMESPACE);
        for number in 0..16 {
            let slice = slice(&number.to_string(), 1_024);
            index.set(NOW, &slice.name.clone(), Some(slice));
        }
        index.room.give_back("flood", OF_NAMESPACE);
        let turns: Vec<usize> = (0..4)
            .map(|_| {
                index.retry(NOW, &mut Changed::default());
                index.left_out.all.len()
            })
            .collect();
        assert_eq!(turns, [12, 8, 4, 0]);
    }

    #[test]
    fn a_left_out_slice_that_changes_touches_its_service_and_none_of_the_endpoints() {
        let mut index = EndpointIndex::default();
        index.set(NOW, &named("flood", "a"), Some(slice("a", 1_000)));
        for number in 0..3 {
            let huge = slice(&format!("huge-{}", number % 2), number).emptied();
            let changed = index.set(NOW, &huge.name.clone(), Some(huge));
            let web = &changed.endpoints[&named("flood", "web")];
            assert!(web.all && web.places.is_empty());
        }
    }

    #[test]
    fn a_service_without_endpoints_takes_no_room() {
        let mut index = EndpointIndex::default();
        for number in 0..SERVICES {
            let name = named("flood", &number.to_string());
            index.set(NOW, &name, Some(listing(&name, ips(0))));
            index.set(NOW, &name, None);
        }
        let name = named("flood", "real");
        index.set(NOW, &name, Some(listing(&name, ips(1))));
        assert!(index.left_out.all.is_empty());
        index.set(NOW, &name, Some(listing(&name, ips(0))));
        index.expire(NOW + MEMORY * 2);
        index.set(NOW + MEMORY * 2, &name, None);
        assert!(
            index.services.is_empty() && index.of_namespaces.is_empty(),
            "its deletion leaves nothing"
        );
    }
}
