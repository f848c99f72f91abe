//! The writes of the index: a fact, an object of a list, or the passing of time. Each returns what
//! it changed. Nothing but the index writes the index.

use super::ClusterIndex;
use super::changed::{Changed, ChangedPod};
use super::listed_objects::ListedObjects;
use super::pods::ShownBy;
use super::vips::VipClaims;
use crate::facts::{Change, Fact, Namespace, Node, ObjectName, Selection, Service, Slice, Text};
use epguard_common::UidState;
use std::collections::BTreeSet;
use std::time::Duration;

impl ClusterIndex {
    /// Applies a fact. Lists of pods are applied by [`ClusterIndex::apply_next`], reports about
    /// holders of IPs belong to the orphan IPs.
    pub(crate) fn apply(&mut self, now: Duration, fact: Fact) -> Changed {
        match fact {
            Fact::Pod(Change::Applied(pod)) => {
                let pod = self.pods.show(now, pod);
                self.after_pod(now, pod)
            }
            Fact::Pod(Change::Deleted(pod)) => {
                let pod = self.pods.delete(now, pod);
                self.after_pod(now, Some(pod))
            }
            Fact::Pod(Change::Gone(pod)) => {
                let pod = self.pods.vanish(pod.uid);
                self.after_pod(now, Some(pod))
            }
            Fact::Slice(change) => {
                let mut changed = Changed::default();
                for (name, slice) in self.slices_by_name(change) {
                    self.endpoint_index.replace(now, &name, slice, &mut changed);
                }
                self.after_endpoints(&mut changed);
                changed
            }
            Fact::Service(change) => {
                let mut changed = Changed::default();
                for (name, service) in self.services_by_name(change) {
                    self.apply_service(now, &name, service, &mut changed);
                }
                changed
            }
            Fact::Node(change) => self.apply_nodes(now, change),
            Fact::Namespace(change) => self.apply_namespaces(change),
            Fact::NodeSeen(seen) => {
                self.nodes.see(&seen);
                Changed::default()
            }
            Fact::SocketLb(is_there) => {
                let is_new = self.has_socket_lb != is_there;
                self.has_socket_lb = is_there;
                Changed {
                    all_vips: is_new,
                    ..Changed::default()
                }
            }
            Fact::LocalAddresses(addresses) => {
                let addresses = self.set_local(addresses);
                Changed {
                    all_vips: !addresses.is_empty(),
                    addresses,
                    ..Changed::default()
                }
            }
            Fact::Pod(Change::Reset(_) | Change::Part(_))
            | Fact::Presence(_)
            | Fact::ModePolicy(_) => Changed::default(),
        }
    }

    /// Applies the next object of a list. Returns about how much work that was, in objects and
    /// endpoints; none if no object is left.
    pub(crate) fn apply_next(
        &mut self,
        now: Duration,
        objects: &mut ListedObjects,
    ) -> Option<(usize, Changed)> {
        match objects {
            ListedObjects::Pods { gone, listed } => {
                let pod = match gone.next() {
                    Some(uid) => Some(self.pods.vanish(uid)),
                    None => self.pods.upsert(now, listed.next()?, ShownBy::List),
                };
                Some((1, self.after_pod(now, pod)))
            }
            ListedObjects::SomePods { gone, listed } => {
                let order = self.pods.list_order;
                let pod = match gone.next() {
                    Some(uid) => Some(self.pods.vanish(uid)),
                    None => self.pods.list_in_part(now, listed.next()?),
                };
                let mut changed = self.after_pod(now, pod);
                changed.levelled = self.pods.list_order != order;
                Some((1, changed))
            }
            ListedObjects::Slices(slices) => {
                let (name, slice) = slices.next()?;
                let endpoints = match &slice {
                    Some(slice) => slice.endpoints.len() * slice.ports.len(),
                    None => 0,
                };
                let mut changed = Changed::default();
                self.endpoint_index.replace(now, &name, slice, &mut changed);
                self.after_endpoints(&mut changed);
                Some((1 + endpoints, changed))
            }
            ListedObjects::Services(services) => {
                let (name, service) = services.next()?;
                let mut changed = Changed::default();
                self.apply_service(now, &name, service, &mut changed);
                Some((1, changed))
            }
        }
    }

    /// Applies the passing of time: forgets what is old, and takes in what there is room for now.
    pub(crate) fn expire(&mut self, now: Duration) -> Changed {
        let mut changed = self.endpoint_index.expire(now);
        self.endpoint_index.retry(now, &mut changed);
        self.after_endpoints(&mut changed);
        for name in self.retry_vips() {
            if let Some(service) = self.service(&name) {
                changed.claims.add(VipClaims::beyond(service, None));
            }
        }
        let (nodes, addresses) = self.forget_gone(now);
        changed.nodes.extend(nodes);
        changed.addresses.extend(addresses);
        changed.heirs = self.forget_former_claims(now);
        changed.counting_ranges = self.forget_strays(now);
        changed
    }

    /// Updates what the index knows of a pod besides its record, after that changed.
    fn after_pod(&mut self, now: Duration, pod: Option<ChangedPod>) -> Changed {
        let mut changed = Changed::default();
        let Some(pod) = pod else {
            return changed;
        };
        let before = pod.before.as_ref();
        self.note_node(pod.uid);
        changed.counting_ranges = self.note_stray(now, pod.uid);
        changed.host_ports = self.note_host_ports(before, pod.uid);
        let had_ended = before.is_some_and(|record| record.uid_state != UidState::Live);
        if had_ended || self.has_ended(pod.uid) {
            self.index_stale(pod.uid);
        }
        for service in self.endpoint_index.services_of_pod(pod.uid) {
            if self.pod_may_change_selector(&service, before, self.pods.get(pod.uid)) {
                self.doubt_selector(&service);
                changed.selectors.insert(service);
            }
        }
        changed.pods.push(pod);
        changed
    }

    /// Updates what the index knows of Services besides their endpoints, after these changed.
    fn after_endpoints(&mut self, changed: &mut Changed) {
        for (service, endpoints) in &mut changed.endpoints {
            for (uid, ip) in endpoints.named() {
                // A live pod of its name is the Service's own from now on, whichever IP it has.
                endpoints.all |= self.index_stale_at(uid, service, ip);
                endpoints.doubts_selector |=
                    self.listing_may_change_selector(service, self.pods.get(uid));
            }
            if endpoints.doubts_selector {
                self.doubt_selector(service);
                changed.selectors.insert(service.clone());
            }
        }
    }

    /// Adds or replaces a Service, or removes it with `None`.
    fn apply_service(
        &mut self,
        now: Duration,
        name: &ObjectName,
        service: Option<Service>,
        changed: &mut Changed,
    ) {
        let before = self.service(name).cloned();
        if before == service {
            return;
        }
        let was_left_out = self.vips.left_out.all.contains(name);
        self.set_service(now, name, service);
        let after = self.service(name);
        // All VIPs at the addresses of one that is left out are ambiguous.
        let is_left_out_as_before = was_left_out == self.vips.left_out.all.contains(name);
        for (one, other) in [(before.as_ref(), after), (after, before.as_ref())] {
            let Some(one) = one else { continue };
            let claims = if is_left_out_as_before {
                VipClaims::beyond(one, other)
            } else {
                VipClaims::beyond(one, None)
            };
            changed.owned_ips.extend(&claims.addrs);
            changed.owned_ips.extend(&one.proxied);
            changed.claims.add(claims);
        }
        self.doubt_selector(name);
        changed.selectors.insert(name.clone());
    }

    fn apply_nodes(&mut self, now: Duration, change: Change<Node>) -> Changed {
        let nodes = change.by_name(
            |node| &node.name,
            |part| all_but_in_part(part, self.nodes.names()),
        );
        let mut changed = Changed::default();
        for (name, node) in nodes {
            self.apply_node(now, &name, node, &mut changed);
        }
        changed
    }

    /// Adds or replaces a Node, or removes it with `None`.
    fn apply_node(
        &mut self,
        now: Duration,
        name: &Text,
        node: Option<Node>,
        changed: &mut Changed,
    ) {
        let before = self.nodes.get(name).cloned();
        if before == node {
            return;
        }
        let is_own = name.as_str() == self.settings.node;
        if is_own {
            let claimed = self.claims_in_own_range().map(|(ip, _)| ip);
            changed.owned_ips.extend(claimed);
        }
        changed.zones |= zone_of(before.as_ref()) != zone_of(node.as_ref());
        let is_same_object = match (&before, &node) {
            (Some(before), Some(node)) => {
                before.uid == node.uid && before.pod_cidrs == node.pod_cidrs
            }
            _ => false,
        };
        for node in before.iter().chain(&node) {
            changed.addresses.extend(&node.addresses);
            // NodePorts are there, too.
            changed.claims.addrs.extend(&node.addresses);
            if !is_same_object {
                changed.node_ranges.extend(&node.pod_cidrs);
            }
        }
        if !is_same_object {
            changed.replaced_nodes.insert(name.clone());
        }
        self.set_node(now, name, node);
        if is_own {
            let claimed = self.claims_in_own_range().map(|(ip, _)| ip);
            changed.owned_ips.extend(claimed);
        }
        // Sockets reach NodePorts at the addresses of all nodes, and this node answers them.
        changed.all_vips |= is_own || self.has_socket_lb;
        changed.nodes.insert(name.clone());
    }

    fn apply_namespaces(&mut self, change: Change<Namespace>) -> Changed {
        let namespaces = change.by_name(
            |shown| &shown.name,
            |part| all_but_in_part(part, self.namespaces.keys()),
        );
        let mut changed = Changed::default();
        for (name, shown) in namespaces {
            if self.set_namespace(&name, shown.as_ref()) {
                changed.namespaces.insert(name);
            }
        }
        changed
    }

    /// The Services of a change, by name.
    pub(super) fn services_by_name(
        &self,
        change: Change<Service>,
    ) -> Vec<(ObjectName, Option<Service>)> {
        change.by_name(
            |service| &service.name,
            |part| all_but_in_part(part, self.services.keys()),
        )
    }

    /// The slices of a change, by name.
    pub(super) fn slices_by_name(&self, change: Change<Slice>) -> Vec<(ObjectName, Option<Slice>)> {
        change.by_name(
            |slice| &slice.name,
            |part| {
                let mut names = Vec::new();
                for (name, slice) in &self.endpoint_index.slices {
                    let is_selected = match part {
                        Some((selection, later)) => {
                            selection.has_slice(slice) && !later.contains(name)
                        }
                        None => true,
                    };
                    if is_selected {
                        names.push(name.clone());
                    }
                }
                names
            },
        )
    }
}

/// The names that a whole list would show: what it lacks is gone. None for a part of a list, which
/// proves no absence (and which nobody requests of these kinds).
fn all_but_in_part<'a, N: Clone + 'a>(
    part: Option<(&Selection, &BTreeSet<ObjectName>)>,
    known: impl Iterator<Item = &'a N>,
) -> Vec<N> {
    if part.is_some() {
        Vec::new()
    } else {
        known.cloned().collect()
    }
}

fn zone_of(node: Option<&Node>) -> Option<&Text> {
    node?.zone.as_ref()
}
