//! The writes that make the maps hold the desired tables.

mod op;

pub use op::Op;

use crate::sorted_map::SortedMap;
use crate::state::{Changes, Tables};
use epguard_common::{Addr, DenialKey, Owner};
use std::collections::{BTreeMap, BTreeSet};

/// The writes that lead from the installed tables to the desired ones. In between, no packet meets a denial that
/// neither side has: removals come first, and a suspect only after its denials. No map holds more in between than
/// before or after, so that a full one has room for what replaces its entries. No denial redirects without its
/// backends.
#[must_use]
pub fn tables(installed: &Tables, desired: &Tables) -> Vec<Op> {
    tables_at(installed, desired, &Changes::between(installed, desired))
}

/// The same for the keys that may have changed. TERMINATED is compared whole: the programs change it, too.
#[must_use]
pub fn tables_at(installed: &Tables, desired: &Tables, changes: &Changes) -> Vec<Op> {
    let mut ops = Vec::new();
    let Changes { suspects, services, denied } = changes;
    ops.extend(gone(denied, &installed.denied, &desired.denied).map(Op::RemoveDenial));
    ops.extend(gone(suspects, &installed.suspects, &desired.suspects).map(Op::RemoveSuspect));
    ops.extend(gone(services, &installed.services, &desired.services).map(Op::RemoveService));
    ops.extend(other(&installed.terminated, &desired.terminated).map(Op::RemoveTerminated));
    let redirects = |target: &DenialKey| desired.backends.contains_key(target);
    let (rest, redirected): (Vec<_>, Vec<_>) =
        changed(denied, &installed.denied, &desired.denied).partition(|(target, _)| !redirects(target));
    ops.extend(rest.into_iter().map(|(k, v)| Op::PutDenial(k, v)));
    ops.extend(gone(denied, &installed.backends, &desired.backends).map(Op::RemoveBackends));
    let backends = changed(denied, &installed.backends, &desired.backends);
    ops.extend(backends.map(|(k, v)| Op::PutBackends(k, v.into())));
    ops.extend(redirected.into_iter().map(|(k, v)| Op::PutDenial(k, v)));
    ops.extend(changed(services, &installed.services, &desired.services).map(|(k, v)| Op::PutService(k, v)));
    ops.extend(changed(suspects, &installed.suspects, &desired.suspects).map(|(k, v)| Op::PutSuspect(k, v)));
    let terminated = desired.terminated.iter();
    let terminated = terminated.filter(|(ip, orphan_ip)| installed.terminated.get(ip) != Some(orphan_ip));
    ops.extend(terminated.map(|(ip, orphan_ip)| Op::PutTerminated(*ip, *orphan_ip)));
    ops
}

/// The writes for owners that changed. There are many owners, so the state lists those that changed.
pub fn owners<'a>(
    owners: &'a SortedMap<Addr, Owner>,
    changed: &'a BTreeSet<Addr>,
) -> impl Iterator<Item = Op> + 'a {
    changed.iter().map(|ip| owners.get(ip).map_or(Op::RemoveOwner(*ip), |owner| Op::PutOwner(*ip, *owner)))
}

fn gone<'a, K: Ord + Copy, V>(
    keys: &'a BTreeSet<K>,
    installed: &'a BTreeMap<K, V>,
    desired: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = K> + 'a {
    let gone = |key: &&K| installed.contains_key(key) && !desired.contains_key(key);
    keys.iter().filter(gone).copied()
}

/// Keys that are gone or changed. What the programs write into an entry must not outlive the value that it belongs to.
fn other<'a, K: Ord + Copy, V: PartialEq>(
    installed: &'a BTreeMap<K, V>,
    desired: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = K> + 'a {
    let stays = |key: &K, value: &V| desired.get(key) == Some(value);
    installed.iter().filter(move |(key, value)| !stays(key, value)).map(|(key, _)| *key)
}

fn changed<'a, K: Ord + Copy, V: PartialEq + Copy>(
    keys: &'a BTreeSet<K>,
    installed: &'a BTreeMap<K, V>,
    desired: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (K, V)> + 'a {
    let desired = keys.iter().filter_map(|key| Some((*key, *desired.get(key)?)));
    desired.filter(|(key, value)| installed.get(key) != Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::OrphanIp;
    use epguard_common::{
        Action, Backends, Denial, Mode, Reason, ServiceNumber, Suspect, Uid, UidState, Vip,
    };

    const X: Addr = Addr::v4([10, 244, 1, 10]);
    const SHOP: ServiceNumber = ServiceNumber { number: 1 };
    const VIP: Vip = Vip { addr: Addr::v4([10, 96, 0, 1]), port: 80, protocol: 6, reserved: 0 };
    const TARGET: DenialKey = DenialKey::new(X, SHOP, 8080, 6);

    fn denying(reason: Reason) -> Tables {
        let denial = Denial {
            dead_uid: Uid::NONE,
            owner_uid: Uid::NONE,
            boot_id: Uid::NONE,
            reason,
            uid_state: UidState::Dead,
            mode: Mode::Enforce,
            held: 0,
            action: Action::Unset,
        };
        Tables {
            suspects: BTreeMap::from([(X, Suspect { flags: Suspect::DENIED, ..Suspect::default() })]),
            services: BTreeMap::from([(VIP, SHOP)]),
            denied: BTreeMap::from([(TARGET, denial)]),
            ..Tables::default()
        }
    }

    #[test]
    fn nothing_is_written_when_nothing_changed() {
        assert_eq!(tables(&denying(Reason::Reused), &denying(Reason::Reused)), []);
    }

    #[test]
    fn a_suspect_is_written_after_its_denial_and_its_service() {
        let ops = tables(&Tables::default(), &denying(Reason::Reused));
        assert!(
            matches!(ops.as_slice(), [Op::PutDenial(..), Op::PutService(..), Op::PutSuspect(..)]),
            "{ops:?}"
        );
    }

    #[test]
    fn a_denial_is_removed_before_anything_else() {
        let ops = tables(&denying(Reason::Reused), &Tables::default());
        assert!(
            matches!(ops.as_slice(), [Op::RemoveDenial(_), Op::RemoveSuspect(_), Op::RemoveService(_)]),
            "{ops:?}"
        );
    }

    #[test]
    fn a_changed_reason_is_one_write() {
        let ops = tables(&denying(Reason::Reused), &denying(Reason::DeadBackend));
        assert!(
            matches!(ops.as_slice(), [Op::PutDenial(_, d)] if d.reason == Reason::DeadBackend),
            "{ops:?}"
        );
    }

    /// As many denials from `first` on, all of them redirected.
    fn redirecting(first: u16, count: u16) -> Tables {
        let mut tables = denying(Reason::DeadBackend);
        let (_, mut denial) = tables.denied.pop_first().unwrap();
        denial.action = Action::Redirect;
        for port in first..first + count {
            let target = DenialKey { port, ..TARGET };
            tables.denied.insert(target, denial);
            let backends = Backends { count: 1, sticky: first.into(), ..Backends::default() };
            tables.backends.insert(target, backends);
        }
        tables
    }

    #[test]
    fn a_full_map_takes_replacements_and_no_denial_redirects_without_backends() {
        let mut not_redirected = redirecting(1, 3);
        not_redirected.backends.clear();
        for denial in not_redirected.denied.values_mut() {
            denial.action = Action::Reject;
        }
        let all =
            [redirecting(1, 3), redirecting(3, 3), redirecting(10, 3), not_redirected, Tables::default()];
        for (installed, desired) in all.iter().flat_map(|from| all.iter().map(move |to| (from, to))) {
            let (mut denied, mut backends) = (installed.denied.clone(), installed.backends.clone());
            for op in tables(installed, desired) {
                match op {
                    Op::PutBackends(key, value) => drop(backends.insert(key, *value)),
                    Op::RemoveBackends(key) => drop(backends.remove(&key)),
                    Op::PutDenial(key, value) => drop(denied.insert(key, value)),
                    Op::RemoveDenial(key) => drop(denied.remove(&key)),
                    _ => {}
                }
                assert!(denied.len() <= 3 && backends.len() <= 3);
                let redirected = denied.iter().filter(|(_, denial)| denial.action == Action::Redirect);
                assert!(redirected.map(|(key, _)| key).all(|key| backends.contains_key(key)));
            }
            assert_eq!((&denied, &backends), (&desired.denied, &desired.backends));
        }
    }

    #[test]
    fn an_entry_for_another_dead_pod_is_a_new_entry() {
        let by = |text| OrphanIp { dead: Uid::parse(text).unwrap(), mode: Mode::Enforce, lifted: None };
        let orphan_ip = |text| Tables { terminated: BTreeMap::from([(X, by(text))]), ..Tables::default() };
        let (a, b) = (orphan_ip("a"), orphan_ip("b"));
        assert_eq!(tables(&a, &a), []);
        assert_eq!(tables(&a, &b), [Op::RemoveTerminated(X), Op::PutTerminated(X, by("b"))]);
        assert_eq!(tables(&b, &Tables::default()), [Op::RemoveTerminated(X)]);
    }
}
