//! Where slices list each pod.

use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Uid};

/// The IPs at which slices list a pod, or did recently, each with how many endpoints name the pod
/// there.
#[derive(Debug, Clone, Default)]
pub struct Places(SortedMap<(Uid, Addr), u32>);

impl Places {
    /// An endpoint at the IP names the UID from now on.
    pub fn add(&mut self, uid: Uid, ip: Addr) {
        self.0.count((uid, ip));
    }

    /// An endpoint at the IP names the UID no more.
    pub fn remove(&mut self, uid: Uid, ip: Addr) {
        self.0.uncount(&(uid, ip));
    }

    /// True if a slice lists the UID, or did recently.
    pub fn knows(&self, uid: Uid) -> bool {
        self.ips(uid).next().is_some()
    }

    /// The IPs of a UID.
    pub fn ips(&self, uid: Uid) -> impl Iterator<Item = Addr> {
        let places = self.0.from((uid, Addr { octets: [0; 16] }));
        places
            .take_while(move |((own, _), _)| *own == uid)
            .map(|((_, ip), _)| *ip)
    }
}
