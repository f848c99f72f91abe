//! Denied packets by what they have in common. Pure: callers bring the clock.

use crate::shares::Shares;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Kinds that are kept; beyond it the IP with the most of them loses the one that was seen longest ago.
pub const MAX_KINDS: usize = 1024;

/// Kinds of one IP; beyond it the oldest of that IP is removed. A scan of its ports takes no room from others.
pub const MAX_OF_IP: usize = 128;

/// What packets that are counted together have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// `namespace/name`, `unknown` without one.
    pub service: String,
    /// The pod's end.
    pub endpoint: SocketAddr,
    /// `TCP`, `UDP`, `SCTP`, `other`.
    pub protocol: String,
    /// `dead-backend`, `reused`, ...
    pub reason: String,
    /// What was done: `dropped`, `rejected`, ..., `observed`.
    pub outcome: String,
    /// The pod that was meant.
    pub meant: String,
    /// The pod that would have been hit, or `nobody`.
    pub hit: String,
}

/// Such packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// What they have in common.
    #[serde(flatten)]
    pub kind: Kind,
    /// Packets that were reported. The kernel reports at most 100 a second for each IP, so there may have been more.
    pub reported: u64,
    /// Who sent the last one.
    pub client: IpAddr,
    /// Milliseconds since the first one.
    pub first_ms_ago: u64,
    /// Milliseconds since the last one.
    pub last_ms_ago: u64,
}

/// All of them, since the agent's start.
#[derive(Debug, Default)]
pub struct Tally {
    kinds: BTreeMap<Kind, Seen>,
    shares: Shares<IpAddr>,
    evicted: u64,
}

#[derive(Debug)]
struct Seen {
    reported: u64,
    client: IpAddr,
    first: Duration,
    last: Duration,
}

impl Tally {
    /// A packet.
    pub fn count(&mut self, now: Duration, kind: Kind, client: IpAddr) {
        if !self.kinds.contains_key(&kind) {
            self.make_room(kind.endpoint.ip());
            self.shares.take(kind.endpoint.ip());
        }
        let seen = self.kinds.entry(kind).or_insert(Seen {
            reported: 0,
            client,
            first: now,
            last: now,
        });
        seen.reported += 1;
        (seen.client, seen.last) = (client, now);
    }

    /// Kinds that had to make room for others.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    fn make_room(&mut self, ip: IpAddr) {
        let Some(evictable) = self.shares.evictable(ip, MAX_OF_IP, MAX_KINDS) else {
            return;
        };
        let found = (self.kinds.iter()).filter(|(kind, _)| evictable(&kind.endpoint.ip()));
        let oldest = found
            .min_by_key(|(_, seen)| seen.last)
            .map(|(kind, _)| kind.clone());
        drop(evictable);
        if let Some(oldest) = oldest {
            self.kinds.remove(&oldest);
            self.shares.give_back(&oldest.endpoint.ip());
            self.evicted += 1;
        }
    }

    /// What was counted, the latest first.
    #[must_use]
    pub fn all(&self, now: Duration) -> Vec<Dropped> {
        let ago = |at: Duration| u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
        let mut all: Vec<Dropped> = (self.kinds.iter())
            .map(|(kind, seen)| Dropped {
                kind: kind.clone(),
                reported: seen.reported,
                client: seen.client,
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

    fn kind(service: &str) -> Kind {
        Kind {
            service: service.into(),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            protocol: "TCP".into(),
            reason: "reused".into(),
            outcome: "dropped".into(),
            meant: "shop/a".into(),
            hit: "shop/b".into(),
        }
    }

    fn client(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn packets_of_a_kind_are_one_row_and_the_latest_comes_first() {
        let mut tally = Tally::default();
        for (second, service) in [(1, "shop/web"), (2, "shop/api"), (4, "shop/web")] {
            let number = u8::try_from(second).unwrap();
            tally.count(Duration::from_secs(second), kind(service), client(number));
        }
        let all = tally.all(Duration::from_secs(5));
        let row = |dropped: &Dropped| (dropped.kind.service.clone(), dropped.reported, dropped.client);
        assert_eq!(
            all.iter().map(row).collect::<Vec<_>>(),
            [
                ("shop/web".to_owned(), 2, client(4)),
                ("shop/api".to_owned(), 1, client(2))
            ]
        );
        assert_eq!((all[0].first_ms_ago, all[0].last_ms_ago), (4000, 1000));
    }

    #[test]
    fn beyond_the_bound_the_oldest_kind_of_the_largest_ips_is_removed() {
        let mut tally = Tally::default();
        for number in 0..=MAX_KINDS {
            let now = Duration::from_secs(number as u64);
            let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
            let endpoint = SocketAddr::from(([10, 244, high, low], 8080));
            let service = format!("shop/{number}");
            tally.count(
                now,
                Kind {
                    endpoint,
                    ..kind(&service)
                },
                client(1),
            );
        }
        let all = tally.all(Duration::from_secs(5000));
        assert_eq!((all.len(), tally.evicted()), (MAX_KINDS, 1));
        assert!(all.iter().all(|dropped| dropped.kind.service != "shop/0"));
    }

    #[test]
    fn a_scan_of_one_ip_takes_no_room_from_others() {
        let mut tally = Tally::default();
        let other = Kind {
            endpoint: ([10, 244, 1, 11], 8080).into(),
            ..kind("shop/api")
        };
        tally.count(Duration::ZERO, other, client(1));
        for port in 1..5000 {
            let now = Duration::from_secs(port.into());
            tally.count(
                now,
                Kind {
                    endpoint: ([10, 244, 1, 10], port).into(),
                    ..kind("shop/web")
                },
                client(1),
            );
        }
        let all = tally.all(Duration::from_secs(5000));
        assert_eq!(all.len(), MAX_OF_IP + 1);
        assert!(all.iter().any(|dropped| dropped.kind.service == "shop/api"));
    }
}
