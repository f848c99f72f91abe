//! Maps from a key to a number or to a set, without keys that have none.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Records in a table that [`make_room`] bounds.
pub const MAX_RECORDS: usize = 1024;

/// Records of one IP in such a table.
pub const MAX_OF_IP: usize = 128;

/// How many things there are behind each key, at least one: [`uncount`] takes them away.
pub type Counts<K> = BTreeMap<K, usize>;

/// The things behind each key, at least one: [`ungroup`] takes them away.
pub type Groups<K, V> = BTreeMap<K, BTreeSet<V>>;

/// Subtracts from the number of a key, down to 0. True if that has removed the key.
pub fn uncount<K: Ord + Borrow<Q>, Q: Ord + ?Sized>(
    counts: &mut Counts<K>,
    key: &Q,
    less: usize,
) -> bool {
    let Some(count) = counts.get_mut(key) else {
        return false;
    };
    *count = count.saturating_sub(less);
    *count == 0 && counts.remove(key).is_some()
}

/// Removes one of the things behind a key.
pub fn ungroup<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V: Ord>(
    groups: &mut Groups<K, V>,
    key: &Q,
    value: &V,
) {
    let group = groups.get_mut(key);
    if group.is_some_and(|group| group.remove(value) && group.is_empty()) {
        groups.remove(key);
    }
}

/// Makes room in a table for a record of a key, and counts it, unless the table has one. A flood of
/// records about one IP evicts its own: beyond [`MAX_OF_IP`] the oldest of the same IP goes, in a
/// full table the oldest of the IPs with most records. True if one went.
pub fn make_room<K: Ord + Clone, R, I: Ord>(
    records: &mut BTreeMap<K, R>,
    of_ips: &mut Counts<I>,
    key: &K,
    ip: impl Fn(&K) -> I,
    last: impl Fn(&R) -> Duration,
) -> bool {
    if records.contains_key(key) {
        return false;
    }
    let new_ip = ip(key);
    let is_at_its_bound = of_ips.get(&new_ip).is_some_and(|count| *count >= MAX_OF_IP);
    let most = of_ips.values().max();
    let mut oldest: Option<(&K, Duration)> = None;
    if is_at_its_bound || records.len() >= MAX_RECORDS {
        for (candidate, record) in records.iter() {
            let of_ip = ip(candidate);
            let may_go = if is_at_its_bound {
                of_ip == new_ip
            } else {
                of_ips.get(&of_ip) == most
            };
            if may_go && oldest.is_none_or(|(_, earliest)| last(record) < earliest) {
                oldest = Some((candidate, last(record)));
            }
        }
    }
    let evicted = oldest.map(|(oldest, _)| oldest.clone());
    if let Some(evicted) = &evicted {
        records.remove(evicted);
        uncount(of_ips, &ip(evicted), 1);
    }
    *of_ips.entry(new_ip).or_default() += 1;
    evicted.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_at_its_bound_evicts_its_own_records_and_a_full_table_those_of_the_ips_with_most() {
        let (mut records, mut of_ips) = (BTreeMap::new(), Counts::new());
        let mut add = |ip: usize, number: usize| {
            let key = (ip, number);
            let evicts = make_room(&mut records, &mut of_ips, &key, |(ip, _)| *ip, |last| *last);
            records
                .entry(key)
                .or_insert(Duration::from_secs(number as u64));
            (
                evicts,
                [0, 1, ip].map(|ip| of_ips.get(&ip).copied().unwrap_or_default()),
            )
        };
        for number in 0..MAX_OF_IP {
            assert!(!add(0, number).0);
        }
        assert_eq!(
            add(0, 0),
            (false, [MAX_OF_IP, 0, MAX_OF_IP]),
            "it has a record"
        );
        assert_eq!(add(0, MAX_OF_IP), (true, [MAX_OF_IP, 0, MAX_OF_IP]));
        for number in MAX_OF_IP..MAX_RECORDS {
            assert!(!add(1 + number % 10, number).0);
        }
        assert_eq!(add(11, 0), (true, [MAX_OF_IP - 1, 90, 1]));
        assert!(!records.contains_key(&(0, 0)) && !records.contains_key(&(0, 1)));
        assert_eq!(
            (records.len(), of_ips.values().sum()),
            (MAX_RECORDS, MAX_RECORDS)
        );
    }
}
