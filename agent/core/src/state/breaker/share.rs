//! How many endpoints of a Service may be denied without a second list: half of those that were
//! ready recently.

use crate::counts::Counts;
use crate::facts::ObjectName;
use crate::state::index::ClusterIndex;
use epguard_common::Addr;
use std::time::Duration;

/// So many IPs of one Service fill its share; denials at others await a second list. The agent
/// counts them for each change.
const MOST: usize = 2_048;

/// The share of one Service.
pub struct Share<'a> {
    cluster: &'a ClusterIndex,
    now: Duration,
    service: &'a ObjectName,
    /// How many of the IPs that fill it were ready recently. Counted once that decides, because it
    /// is work and seldom needed.
    denied: Option<usize>,
    /// The IP of the last endpoint: many endpoints may be at one.
    last_ip: Option<Addr>,
    /// Whether that was ready recently.
    last_was_ready: bool,
    /// How many IPs that were ready recently are found so far. No more are searched than needed.
    ready: usize,
    /// The last of them.
    last_ready: Option<Addr>,
}

impl<'a> Share<'a> {
    /// The share of a Service before anything fills it.
    pub const fn new(cluster: &'a ClusterIndex, now: Duration, service: &'a ObjectName) -> Self {
        Self {
            cluster,
            now,
            service,
            denied: None,
            last_ip: None,
            last_was_ready: false,
            ready: 0,
            last_ready: None,
        }
    }

    /// True if an endpoint at the IP may be denied beside those that are; `filled`: how many
    /// denials at each IP fill the share. An endpoint that was not ready recently fills nothing.
    pub fn fits(&mut self, ip: Addr, filled: &Counts<Addr>) -> bool {
        if self.last_ip != Some(ip) {
            self.last_ip = Some(ip);
            self.last_was_ready = self.was_ready(ip);
        }
        if !self.last_was_ready || filled.contains_key(&ip) {
            return true;
        }
        if filled.len() >= MOST {
            return false;
        }
        let fits = self.has_place(filled.len()) || {
            let denied = match self.denied {
                Some(denied) => denied,
                None => filled.keys().filter(|ip| self.was_ready(**ip)).count(),
            };
            self.denied = Some(denied);
            self.has_place(denied)
        };
        if let Some(denied) = &mut self.denied {
            *denied += usize::from(fits);
        }
        fits
    }

    /// True if one more than so many IPs are at most half of those that were ready recently.
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
        let missing = wanted.saturating_sub(self.ready);
        let index = &self.cluster.endpoint_index;
        let further = index.ready_after(self.now, self.service, self.last_ready);
        for ip in further.take(missing) {
            self.ready += 1;
            self.last_ready = Some(ip);
        }
        self.ready >= wanted
    }
}

/// Half of the endpoints, at least one.
pub fn allowance(ready: usize) -> usize {
    (ready / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Slice, listing};
    use crate::state::index::Settings;

    const NOW: Duration = Duration::from_secs(1);

    fn ip(last: u8) -> Addr {
        Addr::v4([10, 0, 0, last])
    }

    fn filled_by(ips: impl IntoIterator<Item = Addr>) -> Counts<Addr> {
        ips.into_iter().map(|ip| (ip, 1)).collect()
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
        let mut some = Share::new(&cluster, NOW, &service);
        assert!(some.fits(ip(MOST), &filled_by((1..MOST).map(ip))));
        let mut all = Share::new(&cluster, NOW, &service);
        assert!(!all.fits(ip(MOST), &filled_by((0..MOST).map(ip))));
    }

    #[test]
    fn an_idle_ip_that_fills_the_share_no_more_makes_no_place_for_another() {
        let service: ObjectName = ObjectName::new("shop", "web");
        let cluster = cluster(&service);
        let mut share = Share::new(&cluster, NOW, &service);
        assert!(
            share.fits(ip(2), &filled_by([ip(1)])),
            "the first one is idle"
        );
        assert!(
            !share.fits(ip(3), &filled_by([ip(2)])),
            "two of three are more than half"
        );
    }
}
