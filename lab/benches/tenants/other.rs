//! Another namespace, whose denial begins and ends while the tenant acts.

use crate::cluster::read;
use crate::objects::{Objects, State};
use epguard_common::{Addr, DenialKey, Uid, Vip};
use epguard_core::facts::{Change, Fact, ObjectName, Pod, Protocol};
use epguard_core::state::Tables;
use std::net::IpAddr;

/// Its Service, and a pod that this lists.
const SERVICE: u32 = 1;
const POD: u32 = crate::size::BIG + 2_000;

#[derive(Clone)]
pub(crate) struct Other {
    /// The pod of the Service, which has ended.
    ended: Pod,
    /// The next pod of the Service, which gets its IP and goes again.
    next: Pod,
    /// True while the API shows the next one.
    is_shown: bool,
    vip: Vip,
}

impl Other {
    pub(crate) fn new(objects: &Objects) -> Self {
        let read = |state| -> Pod { read(&objects.pod(objects.own(POD), state)) };
        let running = read(State::Running);
        let ended = read(State::Ended);
        let vip = Vip {
            addr: IpAddr::from(crate::size::vip(SERVICE)).into(),
            port: 80,
            protocol: Protocol::Tcp.number(),
            reserved: 0,
        };
        let name = ObjectName::new(running.name.namespace.clone(), "next");
        let next = Pod {
            uid: Uid::parse("next").unwrap(),
            name,
            deleting: true,
            ..running
        };
        Self {
            ended,
            next,
            is_shown: false,
            vip,
        }
    }

    /// The IP of the pod that has ended.
    pub(crate) fn ip(&self) -> Addr {
        self.ended.ips[0]
    }

    /// The pod ends.
    pub(crate) fn ends(&self) -> Fact {
        Fact::Pod(Change::Applied(self.ended.clone()))
    }

    /// The next pod comes, so that the denial has to end, or goes.
    pub(crate) fn flips(&mut self) -> Fact {
        self.is_shown = !self.is_shown;
        let next = self.next.clone();
        Fact::Pod(if self.is_shown {
            Change::Applied(next)
        } else {
            Change::Deleted(next)
        })
    }

    /// True while the next pod has the IP: no packet may be denied there.
    pub(crate) fn is_held(&self) -> bool {
        self.is_shown
    }

    /// True if packets to the Service that arrive at the pod's IP are denied.
    pub(crate) fn is_denied(&self, tables: &Tables) -> bool {
        let first = DenialKey {
            addr: self.ip(),
            ..DenialKey::default()
        };
        let is_denied = tables
            .denied
            .from(first)
            .next()
            .is_some_and(|(key, _)| key.addr == first.addr);
        is_denied && tables.services.contains_key(&self.vip)
    }
}
