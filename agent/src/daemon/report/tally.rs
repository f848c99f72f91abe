//! Counts denied packets by what they have in common, from the kernel's counts of each denial: for
//! the log, for `epguard drops`, and for Events. Pure: callers pass the time.

use crate::shared::drops::{CLIENTS, Dropped, Kind, NONE};
use epguard_common::Count;
use epguard_core::counts::{Counts, make_room};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Time between two log lines about one kind.
const QUIET: Duration = Duration::from_secs(10);

/// For how long a Service counts as stale after its last packet.
const STALE: Duration = Duration::from_mins(5);

/// The counts of all kinds since the agent's start, and since the denial began where that is longer
/// ago.
#[derive(Debug, Default)]
pub struct Tally {
    /// With the clients of each.
    kinds: BTreeMap<Kind, Course<Vec<IpAddr>>>,
    shares: Counts<IpAddr>,
    evicted: u64,
}

/// What occurred, and how much of that was reported.
#[derive(Debug)]
pub struct Course<T> {
    /// What it is about.
    pub about: T,
    /// How often it occurred.
    pub count: Count,
    /// When it occurred first.
    pub first: Duration,
    /// When it occurred last.
    pub last: Duration,
    /// When it was last reported, and the count then.
    pub reported: Option<(Duration, Count)>,
}

impl<T> Course<T> {
    /// Nothing is counted yet.
    pub fn new(now: Duration, about: T) -> Self {
        Self {
            about,
            count: Count::default(),
            first: now,
            last: now,
            reported: None,
        }
    }

    /// Adds what occurred until then.
    pub fn add(&mut self, last: Duration, count: Count) {
        self.count = self.count.plus(count);
        self.last = self.last.max(last);
    }

    /// True if there is something new, and nothing was reported for so long.
    pub fn is_due(&self, now: Duration, rest: Duration) -> bool {
        let has_rested = self
            .reported
            .is_none_or(|(at, _)| now.saturating_sub(at) >= rest);
        has_rested && self.count.packets > self.reported.map_or(0, |(_, count)| count.packets)
    }
}

impl Tally {
    /// Adds packets of a kind. `last` is the time of the last one.
    pub fn count(&mut self, last: Duration, kind: Kind, count: Count) {
        self.seen(last, kind).add(last, count);
    }

    /// Records the client of one packet.
    pub fn client(&mut self, now: Duration, kind: Kind, client: IpAddr) {
        let clients = &mut self.seen(now, kind).about;
        clients.retain(|known| *known != client);
        clients.truncate(CLIENTS - 1);
        clients.insert(0, client);
    }

    fn seen(&mut self, now: Duration, kind: Kind) -> &mut Course<Vec<IpAddr>> {
        let evicts = make_room(
            &mut self.kinds,
            &mut self.shares,
            &kind,
            |kind| kind.endpoint.ip(),
            |seen| seen.last,
        );
        self.evicted += u64::from(evicts);
        self.kinds
            .entry(kind)
            .or_insert_with(|| Course::new(now, Vec::new()))
    }

    /// The kinds to log now, which count as logged, each at most once in ten seconds; with the
    /// packets since its last line, and [`Dropped::clients`].
    pub fn due(&mut self, now: Duration) -> Vec<(Kind, Count, Vec<IpAddr>)> {
        let due = self
            .kinds
            .iter_mut()
            .filter(|(_, seen)| seen.is_due(now, QUIET));
        let logged = due.map(|(kind, seen)| {
            let (_, before) = seen.reported.replace((now, seen.count)).unwrap_or_default();
            (kind.clone(), seen.count.since(before), seen.about.clone())
        });
        logged.collect()
    }

    /// How many kinds were evicted.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// How many Services had packets for stale endpoints in the last 5 minutes.
    pub fn stale_services(&self, now: Duration) -> usize {
        let recent = self
            .kinds
            .iter()
            .filter(|(_, seen)| now.saturating_sub(seen.last) <= STALE);
        let services: BTreeSet<&str> = recent.map(|(kind, _)| &*kind.service).collect();
        services.iter().filter(|name| **name != NONE).count()
    }

    /// All kinds with their counts, the latest first.
    pub fn all(&self, now: Duration) -> Vec<Dropped> {
        let ago =
            |at: Duration| u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
        let mut all: Vec<Dropped> = (self.kinds.iter())
            .map(|(kind, seen)| Dropped {
                kind: kind.clone(),
                packets: seen.count.packets,
                bytes: seen.count.bytes,
                openings: seen.count.openings,
                clients: seen.about.clone(),
                first_ms_ago: ago(seen.first),
                last_ms_ago: ago(seen.last),
            })
            .collect();
        all.sort_by_key(|dropped| dropped.last_ms_ago);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::Reason;
    use epguard_core::counts::MAX_OF_IP;

    fn kind(service: &str, endpoint: &str) -> Kind {
        let (service, endpoint) = (service.into(), endpoint.parse().unwrap());
        Kind {
            service,
            endpoint,
            ..Kind::sample(Reason::Reused)
        }
    }

    const X: &str = "10.244.1.10:8080";

    fn client(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn packets_of_a_kind_are_one_row_and_the_latest_comes_first() {
        let mut tally = Tally::default();
        for (second, service) in [(1, "shop/web"), (2, "shop/api"), (4, "shop/web")] {
            tally.client(
                s(second),
                kind(service, X),
                client(u8::try_from(second).unwrap()),
            );
            tally.count(s(second), kind(service, X), Count::one(60, second == 1));
        }
        let all = tally.all(s(5));
        let row = |row: &Dropped| {
            (
                row.kind.service.clone(),
                row.packets,
                row.openings,
                row.clients.clone(),
            )
        };
        assert_eq!(
            all.iter().map(row).collect::<Vec<_>>(),
            [
                ("shop/web".to_owned(), 2, 1, vec![client(4), client(1)]),
                ("shop/api".to_owned(), 1, 0, vec![client(2)])
            ]
        );
        assert_eq!((all[0].first_ms_ago, all[0].last_ms_ago), (4000, 1000));
    }

    #[test]
    fn a_kind_is_logged_once_in_ten_seconds_with_the_packets_since_then() {
        let mut tally = Tally::default();
        let mut logged = |second, packets| {
            for _ in 0..packets {
                tally.count(s(second), kind("shop/web", X), Count::one(60, true));
            }
            tally
                .due(s(second))
                .iter()
                .map(|(_, count, _)| count.packets)
                .sum::<u64>()
        };
        assert_eq!(
            [
                logged(1, 100),
                logged(2, 100),
                logged(10, 1),
                logged(11, 0),
                logged(30, 0)
            ],
            [100, 0, 0, 101, 0]
        );
    }

    #[test]
    fn a_service_is_stale_for_five_minutes_after_its_last_packet_and_an_ip_itself_is_none() {
        let mut tally = Tally::default();
        for (second, service, endpoint) in [
            (0, "shop/web", X),
            (0, "shop/api", X),
            (1, "shop/web", "10.244.1.11:8080"),
            (9, NONE, X),
        ] {
            tally.count(s(second), kind(service, endpoint), Count::one(60, true));
        }
        let stale = [9, 300, 301, 302].map(|second| tally.stale_services(s(second)));
        assert_eq!(stale, [2, 2, 1, 0]);
    }

    #[test]
    fn a_scan_of_one_ip_takes_no_room_from_others() {
        let mut tally = Tally::default();
        tally.count(s(0), kind("shop/web", X), Count::one(60, true));
        for port in 1..5000 {
            let endpoint = format!("10.244.1.11:{port}");
            tally.count(
                s(port),
                kind("shop/scanned", &endpoint),
                Count::one(60, true),
            );
        }
        let all = tally.all(s(5000));
        assert_eq!(all.len(), MAX_OF_IP + 1);
        assert!(all.iter().any(|row| row.kind.service == "shop/web"));
        assert_eq!(tally.evicted(), 4999 - MAX_OF_IP as u64);
    }
}
