//! Counts denied packets by what they have in common, from the kernel's counts of each denial: for the log, for Events and
//! for `epguard drops`. Pure: callers pass the time.

use super::kube_events::Subject;
use crate::kernel::maps::Reading;
use crate::shared::drops::{Dropped, Kind};
use epguard_common::{Count, DenialCount, DenialKey, Outcome};
use epguard_core::counts::Counts;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// Most stored kinds. Beyond it, of the IP with the most kinds, the kind that was seen longest ago is removed.
pub const MAX_KINDS: usize = 1024;

/// Most stored kinds of one IP. Beyond it, the oldest kind of that IP is removed. So a scan of its ports evicts no
/// kinds of other IPs.
pub const MAX_OF_IP: usize = 128;

/// Most clients that are stored for each kind.
const MAX_CLIENTS: usize = 8;

/// Time between two log lines about one kind.
const QUIET: Duration = Duration::from_secs(10);

/// Time between two writes of one Event.
const REST: Duration = Duration::from_mins(1);

/// The counts of all kinds since the agent's start, and since the denial began where that is longer ago.
#[derive(Debug)]
pub struct Tally {
    kinds: BTreeMap<Kind, Seen>,
    shares: Counts<IpAddr>,
    evicted: u64,
    /// The number of the next Event.
    number: u64,
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
    /// The Events: on the Service, and on the pod that was hit.
    events: Vec<Course>,
}

/// An Event about packets of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// The object that it is about.
    pub about: Subject,
    /// A number that no other Event has.
    pub number: u64,
    /// Packets so far.
    pub count: u64,
    /// Time of the first one.
    pub first: Duration,
    /// Time of the last one.
    pub last: Duration,
    /// When it was written before, and the count that it showed.
    pub written: Option<(Duration, u64)>,
}

/// A kind with the packets that are to be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The kind.
    pub kind: Kind,
    /// Packets since the last line.
    pub count: Count,
    /// As [`Dropped::clients`].
    pub clients: Vec<IpAddr>,
}

impl Tally {
    /// Nothing is counted yet. Numbers of Events begin with `number`: the caller draws it at random, so that those of two
    /// agents differ.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self { kinds: BTreeMap::new(), shares: Counts::default(), evicted: 0, number }
    }

    /// Adds packets of a kind. `last` is the time of the last one, `about` the objects that get an Event. Objects of the
    /// same names that were made anew get Events of their own.
    pub fn count(&mut self, last: Duration, kind: Kind, about: Vec<Subject>, count: Count) {
        let number = self.number;
        let seen = self.seen(last, kind);
        seen.count = seen.count.plus(count);
        seen.last = seen.last.max(last);
        if !about.iter().eq(seen.events.iter().map(|course| &course.about)) {
            let begin =
                |(number, about)| Course { about, number, count: 0, first: last, last, written: None };
            seen.events = (number..).zip(about).map(begin).collect();
        }
        for course in &mut seen.events {
            course.count += count.packets;
            course.last = course.last.max(last);
        }
        self.number = number.wrapping_add(2);
    }

    /// Records the client of one packet.
    pub fn client(&mut self, now: Duration, kind: Kind, client: IpAddr) {
        let clients = &mut self.seen(now, kind).clients;
        clients.retain(|known| *known != client);
        clients.truncate(MAX_CLIENTS - 1);
        clients.insert(0, client);
    }

    fn seen(&mut self, now: Duration, kind: Kind) -> &mut Seen {
        if !self.kinds.contains_key(&kind) {
            let ip = kind.endpoint.ip();
            self.make_room(ip);
            self.shares.add(ip, 1);
        }
        self.kinds.entry(kind).or_insert(Seen {
            count: Count::default(),
            logged: Count::default(),
            logged_at: None,
            clients: Vec::new(),
            first: now,
            last: now,
            events: Vec::new(),
        })
    }

    /// The kinds to log now, which count as logged: each at most once in ten seconds.
    pub fn due(&mut self, now: Duration) -> Vec<Due> {
        let added = self.kinds.iter_mut().filter(|(_, seen)| {
            let quiet = seen.logged_at.is_none_or(|at| now.saturating_sub(at) >= QUIET);
            quiet && seen.count.packets > seen.logged.packets
        });
        added
            .map(|(kind, seen)| {
                let count = seen.count.since(seen.logged);
                (seen.logged, seen.logged_at) = (seen.count, Some(now));
                Due { kind: kind.clone(), count, clients: seen.clients.clone() }
            })
            .collect()
    }

    /// The next Event to write, if one is due and one may be written: then it counts as written. New Events come before
    /// counts of earlier ones; within each, the longest waiting comes first.
    pub fn next_event(&mut self, now: Duration, may_write: impl FnOnce() -> bool) -> Option<(Kind, Course)> {
        let kinds = self.kinds.iter_mut();
        let all = kinds.flat_map(|(kind, seen)| seen.events.iter_mut().map(move |course| (kind, course)));
        let due = all.filter(|(_, course)| course.is_due(now));
        let (kind, course) = due.min_by_key(|(_, course)| (course.written, course.first))?;
        may_write().then(|| {
            let due = course.clone();
            course.written = Some((now, course.count));
            (kind.clone(), due)
        })
    }

    /// How many kinds were evicted.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    fn make_room(&mut self, ip: IpAddr) {
        let Some(evictable) = self.shares.evictable(&ip, MAX_OF_IP, MAX_KINDS) else {
            return;
        };
        let found = (self.kinds.iter()).filter(|(kind, _)| evictable(&kind.endpoint.ip()));
        let oldest = found.min_by_key(|(_, seen)| seen.last).map(|(kind, _)| kind.clone());
        drop(evictable);
        if let Some(oldest) = oldest {
            self.kinds.remove(&oldest);
            self.shares.remove(&oldest.endpoint.ip(), 1);
            self.evicted += 1;
        }
    }

    /// All kinds with their counts, the latest first.
    #[must_use]
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

impl Course {
    fn is_due(&self, now: Duration) -> bool {
        let rested = |at| now.saturating_sub(at) >= REST;
        self.written.is_none_or(|(at, count)| self.count > count && rested(at))
    }
}

/// The last reading of each denial.
#[derive(Debug, Default)]
pub struct Ledger(HashMap<DenialKey, DenialCount>);

impl Ledger {
    /// The packets since the last reading of this key, by outcome; outcomes without any are left out.
    pub fn added(&mut self, reading: &Reading) -> Vec<(Outcome, Count)> {
        let target = reading.denied.target;
        let before =
            if reading.ended { self.0.remove(&target) } else { self.0.insert(target, reading.count) };
        let before = before.unwrap_or_default().each();
        let now = reading.count.each();
        now.zip(before)
            .map(|((outcome, now), (_, before))| (outcome, now.since(before)))
            .filter(|(_, count)| count.packets > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::maps::Denied;
    use epguard_common::{Addr, Reason, Uid};
    use std::collections::BTreeSet;

    fn kind(service: &str, endpoint: &str) -> Kind {
        Kind {
            service: service.into(),
            endpoint: endpoint.parse().unwrap(),
            protocol: "TCP".into(),
            reason: "reused".into(),
            outcome: "dropped".into(),
            meant: "shop/a".into(),
            hit: "shop/b".into(),
        }
    }

    const X: &str = "10.244.1.10:8080";

    fn web() -> Subject {
        Subject { kind: "Service", name: ("shop".into(), "web".into()), uid: None }
    }

    fn pod(uid: u8) -> Subject {
        let uid = Some(Uid { octets: [uid; 16] });
        Subject { kind: "Pod", name: ("shop".into(), "b".into()), uid }
    }

    fn record(tally: &mut Tally, at: u64, service: &str, about: &[Subject], packets: u64) {
        let count = Count { packets, bytes: 60 * packets, openings: packets };
        tally.count(s(at), kind(service, X), about.to_vec(), count);
    }

    /// The Events that are written at a time, at most so many.
    fn events(tally: &mut Tally, at: u64, most: usize) -> Vec<Course> {
        let next = || tally.next_event(s(at), || true).map(|(_, course)| course);
        std::iter::from_fn(next).take(most).collect()
    }

    /// What they are about, their counts, and whether they were written before.
    fn shown(courses: &[Course]) -> Vec<(&'static str, u64, bool)> {
        courses.iter().map(|it| (it.about.kind, it.count, it.written.is_some())).collect()
    }

    fn client(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn packets_of_a_kind_are_one_row_and_the_latest_comes_first() {
        let mut tally = Tally::new(7);
        for (second, service) in [(1, "shop/web"), (2, "shop/api"), (4, "shop/web")] {
            tally.client(s(second), kind(service, X), client(u8::try_from(second).unwrap()));
            tally.count(s(second), kind(service, X), vec![], Count::one(60, second == 1));
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
        let mut tally = Tally::new(7);
        let mut logged = |second, packets| {
            for _ in 0..packets {
                record(&mut tally, second, "shop/web", &[], 1);
            }
            tally.due(s(second)).iter().map(|due| due.count.packets).sum::<u64>()
        };
        assert_eq!(
            [logged(1, 100), logged(2, 100), logged(10, 1), logged(11, 0), logged(30, 0)],
            [100, 0, 0, 101, 0]
        );
    }

    #[test]
    fn a_scan_of_one_ip_takes_no_room_from_others() {
        let mut tally = Tally::new(7);
        tally.count(s(0), kind("shop/web", X), vec![], Count::one(60, true));
        for port in 1..5000 {
            let endpoint = format!("10.244.1.11:{port}");
            tally.count(s(port), kind("shop/scanned", &endpoint), vec![], Count::one(60, true));
        }
        let all = tally.all(s(5000));
        assert_eq!(all.len(), MAX_OF_IP + 1);
        assert!(all.iter().any(|row| row.kind.service == "shop/web"));
        assert_eq!(tally.evicted(), 4999 - MAX_OF_IP as u64);
    }

    #[test]
    fn beyond_the_bound_the_ip_with_the_most_makes_room() {
        let mut tally = Tally::new(7);
        for number in 0..100 {
            let endpoint = format!("10.0.0.1:{number}");
            tally.count(s(0), kind("shop/large", &endpoint), vec![], Count::one(60, true));
        }
        for number in 0..u16::try_from(MAX_KINDS).unwrap() - 100 + 10 {
            let [high, low] = number.to_be_bytes();
            let endpoint = format!("10.1.{high}.{low}:80");
            tally.count(s(1), kind("shop/web", &endpoint), vec![], Count::one(60, true));
        }
        let all = tally.all(s(2));
        assert_eq!(all.len(), MAX_KINDS);
        let large = all.iter().filter(|row| row.kind.service == "shop/large");
        assert_eq!(large.count(), 90);
    }

    #[test]
    fn a_thousand_packets_are_one_event_for_each_object_and_its_count_follows_once_a_minute() {
        let mut tally = Tally::new(7);
        let about = [web(), pod(3)];
        record(&mut tally, 100, "shop/web", &about, 1);
        assert_eq!(shown(&events(&mut tally, 101, 9)), [("Service", 1, false), ("Pod", 1, false)]);
        record(&mut tally, 102, "shop/web", &about, 1000);
        for at in 102..161 {
            assert_eq!(events(&mut tally, at, 9), []);
        }
        assert_eq!(shown(&events(&mut tally, 161, 9)), [("Service", 1001, true), ("Pod", 1001, true)]);
        assert_eq!(events(&mut tally, 300, 9), [], "nothing new");
        record(&mut tally, 400, "shop/web", &about, 1);
        let due = events(&mut tally, 400, 1).remove(0);
        let written = Some((s(161), 1001));
        assert_eq!(
            due,
            Course { about: web(), number: 7, count: 1002, first: s(100), last: s(400), written }
        );
    }

    #[test]
    fn new_events_are_written_before_counts_and_none_is_lost_while_none_may_be_written() {
        let mut tally = Tally::new(0);
        let services = ["shop/a", "shop/b", "shop/c"];
        for (at, service) in (100..).zip(services) {
            record(&mut tally, at, service, &[web()], 2);
        }
        assert_eq!(tally.next_event(s(110), || false), None);
        let first = events(&mut tally, 110, 2);
        assert_eq!(first.iter().map(|it| it.first).collect::<Vec<_>>(), [s(100), s(101)]);
        record(&mut tally, 120, "shop/a", &[web()], 1);
        let later = events(&mut tally, 181, 9);
        assert_eq!(shown(&later), [("Service", 2, false), ("Service", 3, true)]);
    }

    #[test]
    fn a_pod_that_was_made_anew_under_its_name_gets_an_event_of_its_own() {
        let mut tally = Tally::new(7);
        record(&mut tally, 100, "shop/web", &[web(), pod(3)], 5);
        let before = events(&mut tally, 100, 9);
        record(&mut tally, 101, "shop/web", &[web(), pod(4)], 2);
        let after = events(&mut tally, 101, 9);
        assert_eq!(shown(&after), [("Service", 2, false), ("Pod", 2, false)]);
        let numbers: BTreeSet<u64> = before.iter().chain(&after).map(|it| it.number).collect();
        assert_eq!((numbers.len(), after[1].about.clone()), (4, pod(4)));
        record(&mut tally, 102, "shop/web", &[], 1);
        assert_eq!(events(&mut tally, 200, 9), [], "the Service is gone");
    }

    fn reading(dropped: u64, ended: bool) -> Reading {
        let target = DenialKey::of_ip(Addr::v4([10, 244, 1, 10]));
        Reading {
            denied: Denied { target, reason: Reason::Terminated, dead: Uid::NONE, owner: Uid::NONE },
            count: DenialCount {
                dropped: Count { packets: dropped, bytes: dropped * 60, openings: dropped },
                ..DenialCount::default()
            },
            ended,
        }
    }

    fn added(ledger: &mut Ledger, dropped: u64, ended: bool) -> Vec<(Outcome, u64)> {
        let added = ledger.added(&reading(dropped, ended)).into_iter();
        added.map(|(outcome, count)| (outcome, count.packets)).collect()
    }

    #[test]
    fn each_packet_is_counted_once_and_a_new_entry_begins_at_zero() {
        let mut ledger = Ledger::default();
        assert_eq!(added(&mut ledger, 7, false), [(Outcome::Dropped, 7)]);
        assert_eq!(added(&mut ledger, 7, false), []);
        assert_eq!(added(&mut ledger, 9, true), [(Outcome::Dropped, 2)]);
        assert_eq!(added(&mut ledger, 9, false), [(Outcome::Dropped, 9)]);
    }
}
