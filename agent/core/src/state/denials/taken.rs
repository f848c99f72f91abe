//! Endpoints that take the room of their Service.

use crate::state::index::endpoints::Endpoint;
use epguard_common::Addr;
use std::collections::BTreeSet;

/// Endpoints of one Service whose denials are carried out though they are not plain.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Taken {
    endpoints: BTreeSet<Endpoint>,
    /// How many IPs they have.
    ips: usize,
}

impl Taken {
    /// Adds the endpoint, or removes it.
    pub(in crate::state) fn set(&mut self, endpoint: Endpoint, is_in: bool) {
        let before = self.has(endpoint.ip);
        if is_in {
            self.endpoints.insert(endpoint);
        } else {
            self.endpoints.remove(&endpoint);
        }
        match (before, self.has(endpoint.ip)) {
            (false, true) => self.ips += 1,
            (true, false) => self.ips -= 1,
            _ => {}
        }
    }

    /// True if one of them is at the IP.
    pub(in crate::state) fn has(&self, ip: Addr) -> bool {
        let (first, last) = Endpoint::range_at(ip);
        self.endpoints.range(first..=last).next().is_some()
    }

    /// How many IPs they have.
    pub(in crate::state) const fn ips(&self) -> usize {
        self.ips
    }

    /// Their IPs.
    pub(in crate::state) fn all_ips(&self) -> BTreeSet<Addr> {
        self.endpoints.iter().map(|endpoint| endpoint.ip).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Protocol;

    #[test]
    fn an_ip_counts_once_for_all_its_ports_and_until_the_last_of_them_goes() {
        let endpoint =
            |last, port| Endpoint { ip: Addr::v4([10, 0, 0, last]), port, protocol: Protocol::Tcp };
        let mut taken = Taken::default();
        let mut set = |endpoint, is_in| {
            taken.set(endpoint, is_in);
            (taken.ips(), taken.all_ips().len())
        };
        assert_eq!(set(endpoint(1, 80), true), (1, 1));
        assert_eq!(set(endpoint(1, 443), true), (1, 1));
        assert_eq!(set(endpoint(2, 80), true), (2, 2));
        assert_eq!(set(endpoint(3, 80), false), (2, 2));
        assert_eq!(set(endpoint(1, 80), false), (2, 2));
        assert_eq!(set(endpoint(1, 443), false), (1, 1));
        assert!(!taken.has(Addr::v4([10, 0, 0, 1])) && taken.has(Addr::v4([10, 0, 0, 2])));
    }
}
