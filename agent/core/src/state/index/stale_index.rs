//! The endpoints that name a pod that has ended. Only these can be denied, so a change that
//! concerns many endpoints needs to look at no others.

use crate::counts::{Groups, ungroup};
use crate::facts::{Cidr, ObjectName};
use epguard_common::{Addr, Uid};

/// Where Services list retired and dead pods, or did recently.
#[derive(Debug, Clone, Default)]
pub struct StaleIndex(Groups<ObjectName, (Addr, Uid)>);

impl StaleIndex {
    /// True if the Service lists an ended pod at the IP, or did recently.
    pub fn has(&self, service: &ObjectName, ip: Addr) -> bool {
        let from = self
            .0
            .get(service)
            .and_then(|pairs| pairs.range((ip, Uid::NONE)..).next());
        from.is_some_and(|(own, _)| *own == ip)
    }

    /// True if the Service lists this pod at the IP, or did recently, and the pod has ended.
    pub fn has_pair(&self, service: &ObjectName, ip: Addr, uid: Uid) -> bool {
        self.0
            .get(service)
            .is_some_and(|pairs| pairs.contains(&(ip, uid)))
    }

    /// The IPs at which the Service lists ended pods, or did recently, ascending.
    pub fn ips(&self, service: &ObjectName) -> impl Iterator<Item = Addr> {
        self.0.get(service).into_iter().flatten().map(|(ip, _)| *ip)
    }

    /// True if the Service lists an ended pod at an IP of this family, or did recently: `is_v4`, or
    /// IPv6.
    pub fn has_of_family(&self, service: &ObjectName, is_v4: bool) -> bool {
        let Some(pairs) = self.0.get(service) else {
            return false;
        };
        let first_v4 = Addr::v4([0; 4]);
        let last_v4 = Addr::v4([u8::MAX; 4]);
        if is_v4 {
            let from = pairs.range((first_v4, Uid::NONE)..).next();
            return from.is_some_and(|(ip, _)| *ip <= last_v4);
        }
        pairs.first().is_some_and(|(ip, _)| *ip < first_v4)
            || pairs.last().is_some_and(|(ip, _)| *ip > last_v4)
    }

    /// The Services that list ended pods, or did recently.
    pub fn services(&self) -> impl Iterator<Item = &ObjectName> {
        self.0.keys()
    }

    /// True if the Service lists an ended pod, or did recently.
    pub fn lists(&self, service: &ObjectName) -> bool {
        self.0.contains_key(service)
    }

    /// The Services of a namespace that list ended pods, or did recently.
    pub fn services_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a ObjectName> {
        let services = self
            .0
            .range(ObjectName::first_of(namespace)..)
            .map(|(service, _)| service);
        services.take_while(move |service| service.namespace == namespace)
    }

    /// All pairs of an ended pod and an IP, with the Service that lists the pod there.
    pub fn pairs(&self) -> impl Iterator<Item = (&ObjectName, Addr, Uid)> {
        let all = self.0.iter();
        all.flat_map(|(service, pairs)| pairs.iter().map(move |(ip, uid)| (service, *ip, *uid)))
    }

    /// The Services and IPs of the pairs in a range.
    pub fn in_range(&self, range: Cidr) -> impl Iterator<Item = (&ObjectName, Addr)> {
        let all = self.0.iter();
        all.flat_map(move |(service, pairs)| {
            let from = pairs.range((range.first, Uid::NONE)..);
            let inside = from.take_while(move |(ip, _)| *ip <= range.last);
            inside.map(move |(ip, _)| (service, *ip))
        })
    }

    /// Adds or removes a pair. True if it is a new one.
    pub fn set(&mut self, uid: Uid, service: ObjectName, ip: Addr, is_stale: bool) -> bool {
        if is_stale {
            self.0.entry(service).or_default().insert((ip, uid))
        } else {
            ungroup(&mut self.0, &service, &(ip, uid));
            false
        }
    }
}
