//! Counts denied packets by what they have in common, from the kernel's counts of each denial: for the log and for
//! `epguard drops`. Pure: callers pass the time.

use crate::shared::drops::{CLIENTS, Dropped, Kind};
use epguard_common::Count;
use epguard_core::counts::{Counts, make_room};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Time between two log lines about one kind.
const QUIET: Duration = Duration::from_secs(10);

/// The counts of all kinds since the agent's start, and since the denial began where that is longer ago.
#[derive(Debug, Default)]
pub struct Tally {
    kinds: BTreeMap<Kind, Seen>,
    shares: Counts<IpAddr>,
    evicted: u64,
}

#[derive(Debug)]
struct Seen {
    count: Count,
    /// The part of `count` that was logged.
    logged: Count,
    logged_at: Option<Duration>,
    clients: Vec<IpAddr>,
    first: Duration,
    last: Duration,
}

impl Tally {
    /// Adds packets of a kind. `last` is the time of the last one.
    pub fn count(&mut self, last: Duration, kind: Kind, count: Count) {
        let seen = self.seen(last, kind);
        seen.count = seen.count.plus(count);
        seen.last = seen.last.max(last);
    }

    /// Records the client of one packet.
    pub fn client(&mut self, now: Duration, kind: Kind, client: IpAddr) {
        let clients = &mut self.seen(now, kind).clients;
        clients.retain(|known| *known != client);
        clients.truncate(CLIENTS - 1);
        clients.insert(0, client);
    }

    fn seen(&mut self, now: Duration, kind: Kind) -> &mut Seen {
        let ip = |kind: &Kind| kind.endpoint.ip();
        let evicts = make_room(&mut self.kinds, &mut self.shares, &kind, ip, |seen| seen.last);
        self.evicted += u64::from(evicts);
        self.kinds.entry(kind).or_insert(Seen {
            count: Count::default(),
            logged: Count::default(),
            logged_at: None,
            clients: Vec::new(),
            first: now,
            last: now,
        })
    }

    /// The kinds to log now, which count as logged, each at most once in ten seconds; with the packets since its last line, and
    /// [`Dropped::clients`].
    pub fn due(&mut self, now: Duration) -> Vec<(Kind, Count, Vec<IpAddr>)> {
        let added = self.kinds.iter_mut().filter(|(_, seen)| {
            let quiet = seen.logged_at.is_none_or(|at| now.saturating_sub(at) >= QUIET);
            quiet && seen.count.packets > seen.logged.packets
        });
        added
            .map(|(kind, seen)| {
                let count = seen.count.since(seen.logged);
                (seen.logged, seen.logged_at) = (seen.count, Some(now));
                (kind.clone(), count, seen.clients.clone())
            })
            .collect()
    }

    /// How many kinds were evicted.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All kinds with their counts, the latest first.
    pub fn all(&self, now: Duration) -> Vec<Dropped> {
        let ago = |at: Duration| u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
        let mut all: Vec<Dropped> = (self.kinds.iter())
            .map(|(kind, seen)| Dropped {
                kind: kind.clone(),
                packets: seen.count.packets,
                bytes: seen.count.bytes,
                openings: seen.count.openings,
                clients: seen.clients.clone(),
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
        Kind { service, endpoint, ..Kind::sample(Reason::Reused) }
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
            tally.client(s(second), kind(service, X), client(u8::try_from(second).unwrap()));
            tally.count(s(second), kind(service, X), Count::one(60, second == 1));
        }
        let all = tally.all(s(5));
        let row = |row: &Dropped| (row.kind.service.clone(), row.packets, row.openings, row.clients.clone());
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
            tally.due(s(second)).iter().map(|(_, count, _)| count.packets).sum::<u64>()
        };
        assert_eq!(
            [logged(1, 100), logged(2, 100), logged(10, 1), logged(11, 0), logged(30, 0)],
            [100, 0, 0, 101, 0]
        );
    }

    #[test]
    fn a_scan_of_one_ip_takes_no_room_from_others() {
        let mut tally = Tally::default();
        tally.count(s(0), kind("shop/web", X), Count::one(60, true));
        for port in 1..5000 {
            let endpoint = format!("10.244.1.11:{port}");
            tally.count(s(port), kind("shop/scanned", &endpoint), Count::one(60, true));
        }
        let all = tally.all(s(5000));
        assert_eq!(all.len(), MAX_OF_IP + 1);
        assert!(all.iter().any(|row| row.kind.service == "shop/web"));
        assert_eq!(tally.evicted(), 4999 - MAX_OF_IP as u64);
    }
}
