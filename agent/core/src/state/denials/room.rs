//! How many more endpoints of a Service may be denied without a second list.

use super::OfService;
use crate::facts::ObjectName;
use crate::state::index::ClusterIndex;
use epguard_common::Addr;
use std::time::Duration;

/// So many IPs of one Service take room; denials at others wait for a second list. They are counted
/// for each change.
const MOST: usize = 2_048;

/// The room of one Service.
pub struct Room<'a> {
    cluster: &'a ClusterIndex,
    now: Duration,
    service: &'a ObjectName,
    /// How many of the IPs that take room were ready recently. Known once that decides, since it is
    /// work and seldom needed.
    denied: Option<usize>,
    /// The IP of the last endpoint, and whether it was ready recently: many endpoints may be at
    /// one.
    looked_at: (Option<Addr>, bool),
    /// How many IPs that were ready recently are found so far, and the last of them. No more are
    /// searched than needed.
    ready: (usize, Option<Addr>),
}

impl<'a> Room<'a> {
    /// The room of a Service before anything takes it.
    pub const fn new(cluster: &'a ClusterIndex, now: Duration, service: &'a ObjectName) -> Self {
        Self {
            cluster,
            now,
            service,
            denied: None,
            looked_at: (None, false),
            ready: (0, None),
        }
    }

    /// True if an endpoint may be denied beside those that are. An endpoint that was not ready
    /// recently takes no place.
    pub fn fits(&mut self, ip: Addr, taken: &OfService) -> bool {
        if self.looked_at.0 != Some(ip) {
            self.looked_at = (Some(ip), self.was_ready(ip));
        }
        if !self.looked_at.1 || taken.taken.contains_key(&ip) {
            return true;
        }
        if taken.taken.len() >= MOST {
            return false;
        }
        let fits = self.has_place(taken.taken.len()) || {
            let count = || taken.taken.keys().filter(|ip| self.was_ready(**ip)).count();
            let denied = self.denied.unwrap_or_else(count);
            self.denied = Some(denied);
            self.has_place(denied)
        };
        if let Some(denied) = &mut self.denied {
            *denied += usize::from(fits);
        }
        fits
    }

    fn has_place(&mut self, denied: usize) -> bool {
        denied == 0 || self.were_ready(2 * (denied + 1))
    }

    fn was_ready(&self, ip: Addr) -> bool {
        self.cluster
            .endpoint_index
            .was_ready(self.now, self.service, ip)
    }

    /// True if at least so many IPs were ready recently.
    fn were_ready(&mut self, wanted: usize) -> bool {
        let (found, last) = &mut self.ready;
        let rest = wanted.saturating_sub(*found);
        let index = &self.cluster.endpoint_index;
        for ip in index.ready_after(self.now, self.service, *last).take(rest) {
            (*found, *last) = (*found + 1, Some(ip));
        }
        *found >= wanted
    }
}

/// Half of the endpoints, at least one.
pub fn allowance(ready: usize) -> usize {
    (ready / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Protocol, Slice, listing};
    use crate::plan::tests::DENIAL;
    use crate::state::Settings;
    use crate::state::denials::pending::Denied;
    use crate::state::index::endpoints::Endpoint;

    const NOW: Duration = Duration::from_secs(1);

    fn ip(last: u8) -> Addr {
        Addr::v4([10, 0, 0, last])
    }

    fn endpoint(last: u8, port: u16) -> Endpoint {
        Endpoint {
            ip: ip(last),
            port,
            protocol: Protocol::Tcp,
        }
    }

    fn taking(endpoints: &[Endpoint]) -> OfService {
        let mut known = OfService::default();
        for endpoint in endpoints {
            known.denied.insert(*endpoint, Denied::new(&DENIAL, None));
            known.set_room(endpoint, true);
        }
        known
    }

    /// The Service has four endpoints, of which the first is not ready.
    fn cluster(service: &ObjectName) -> ClusterIndex {
        let mut cluster = ClusterIndex::new(Settings::default());
        let mut slice = listing(service, (1..=4).map(ip));
        slice.endpoints[0].ready = false;
        cluster.endpoint_index.set(NOW, service, Some(slice));
        cluster
    }

    #[test]
    fn a_service_with_very_many_denials_has_the_others_wait_for_a_second_list() {
        let service: ObjectName = ObjectName::new("shop", "web");
        let ip = |number: usize| Addr {
            octets: (number as u128).to_be_bytes(),
        };
        let mut cluster = ClusterIndex::new(Settings::default());
        for first in (0..3 * MOST).step_by(MOST / 2) {
            let name = ObjectName::new("shop", format!("web-{first}"));
            let listed = listing(&name, (first..first + MOST / 2).map(ip));
            let slice = Slice {
                service: Some(service.clone()),
                ..listed
            };
            cluster.endpoint_index.set(NOW, &name, Some(slice));
        }
        let endpoint = |number| Endpoint {
            ip: ip(number),
            port: 80,
            protocol: Protocol::Tcp,
        };
        let denied: Vec<Endpoint> = (0..MOST).map(endpoint).collect();
        assert!(Room::new(&cluster, NOW, &service).fits(ip(MOST), &taking(&denied[1..])));
        assert!(!Room::new(&cluster, NOW, &service).fits(ip(MOST), &taking(&denied)));
    }

    #[test]
    fn an_idle_ip_that_takes_room_no_more_makes_no_place_for_another() {
        let service: ObjectName = ObjectName::new("shop", "web");
        let cluster = cluster(&service);
        let mut room = Room::new(&cluster, NOW, &service);
        assert!(
            room.fits(ip(2), &taking(&[endpoint(1, 80)])),
            "the first one is idle"
        );
        assert!(
            !room.fits(ip(3), &taking(&[endpoint(2, 80)])),
            "two of three are more than half"
        );
    }

    #[test]
    fn an_ip_counts_once_for_all_its_ports_and_until_the_last_of_them_goes() {
        let all = [endpoint(1, 80), endpoint(1, 443), endpoint(2, 80)];
        let mut known = taking(&all);
        let steps = [
            (0, true, 2),
            (0, false, 2),
            (0, false, 2),
            (1, false, 1),
            (0, true, 2),
            (2, false, 1),
        ];
        for (which, takes_room, ips) in steps {
            known.set_room(&all[which], takes_room);
            assert_eq!(known.taken.len(), ips, "{which} {takes_room}");
        }
    }
}
