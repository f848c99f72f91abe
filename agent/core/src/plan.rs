//! The writes that make the maps hold the desired tables.

use crate::sorted_map::SortedMap;
use crate::state::{Changes, OrphanIp, Tables};
use epguard_common::{Addr, Backends, Denial, DenialKey, Owner, ServiceNumber, Suspect, Vip};
use std::collections::BTreeSet;

/// What a key of a map gets; none: its entry is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the maps")]
pub enum Op {
    Denial(DenialKey, Option<Denial>),
    Backends(DenialKey, Option<Box<Backends>>),
    Service(Vip, Option<ServiceNumber>),
    Suspect(Addr, Option<Suspect>),
    Terminated(Addr, Option<OrphanIp>),
    Owner(Addr, Option<Owner>),
}

impl Op {
    /// The write that takes out what this one puts in; none for a removal.
    pub const fn removal(&self) -> Option<Self> {
        Some(match self {
            Self::Denial(key, Some(_)) => Self::Denial(*key, None),
            Self::Backends(key, Some(_)) => Self::Backends(*key, None),
            Self::Service(key, Some(_)) => Self::Service(*key, None),
            Self::Suspect(key, Some(_)) => Self::Suspect(*key, None),
            Self::Terminated(key, Some(_)) => Self::Terminated(*key, None),
            Self::Owner(key, Some(_)) => Self::Owner(*key, None),
            _ => return None,
        })
    }

    /// Applies the write to the tables that are known to be installed.
    pub fn apply(&self, installed: &mut Tables) {
        match self {
            Self::Denial(key, value) => put(&mut installed.denied, *key, *value),
            Self::Backends(key, value) => {
                put(&mut installed.backends, *key, value.as_deref().copied());
            }
            Self::Service(key, value) => put(&mut installed.services, *key, *value),
            Self::Suspect(key, value) => put(&mut installed.suspects, *key, *value),
            Self::Terminated(key, Some(value)) => {
                installed.terminated.insert(*key, *value);
            }
            Self::Terminated(key, None) => {
                installed.terminated.remove(key);
            }
            Self::Owner(..) => {}
        }
    }

    /// Adds its key to those that may have changed.
    pub fn add_key_to(&self, changes: &mut Changes) {
        match self {
            Self::Denial(key, _) | Self::Backends(key, _) => {
                changes.denied.insert(*key);
            }
            Self::Service(key, _) => {
                changes.services.insert(*key);
            }
            Self::Suspect(key, _) => {
                changes.suspects.insert(*key);
            }
            Self::Owner(..) | Self::Terminated(..) => {}
        }
    }
}

fn put<K: Ord + Clone, V>(table: &mut SortedMap<K, V>, key: K, value: Option<V>) {
    if let Some(value) = value {
        table.insert(key, value);
    } else {
        table.remove(&key);
    }
}

/// The writes that lead from the installed tables to the desired ones, of the keys that may have
/// changed. TERMINATED is compared whole: the programs change it, too.
///
/// In between, no packet meets a denial that neither side has: removals come first, and a suspect
/// only after its denials. No map holds more in between than before or after, so that a full one
/// has room for what replaces its entries. No denial redirects without its backends.
pub fn tables(installed: &Tables, desired: &Tables, changes: &Changes) -> Vec<Op> {
    let (gone_denials, denials) = changed(
        &changes.denied,
        &installed.denied,
        &desired.denied,
        Op::Denial,
    );
    let (gone_suspects, suspects) = changed(
        &changes.suspects,
        &installed.suspects,
        &desired.suspects,
        Op::Suspect,
    );
    let (gone_services, services) = changed(
        &changes.services,
        &installed.services,
        &desired.services,
        Op::Service,
    );
    let (gone_backends, backends) = changed(
        &changes.denied,
        &installed.backends,
        &desired.backends,
        |key, backends| Op::Backends(key, backends.map(Box::new)),
    );
    // What the programs write into an entry must not outlive the value that it belongs to.
    let mut gone_orphan_ips = Vec::new();
    for (ip, value) in &installed.terminated {
        if desired.terminated.get(ip) != Some(value) {
            gone_orphan_ips.push(Op::Terminated(*ip, None));
        }
    }
    let mut orphan_ips = Vec::new();
    for (ip, value) in &desired.terminated {
        if installed.terminated.get(ip) != Some(value) {
            orphan_ips.push(Op::Terminated(*ip, Some(*value)));
        }
    }
    let is_redirected =
        |op: &Op| matches!(op, Op::Denial(key, _) if desired.backends.contains_key(key));
    let (redirected, denials) = denials.into_iter().partition(is_redirected);
    let removals = [gone_denials, gone_suspects, gone_services, gone_orphan_ips];
    let writes = [
        denials,
        gone_backends,
        backends,
        redirected,
        services,
        suspects,
        orphan_ips,
    ];
    removals.into_iter().chain(writes).flatten().collect()
}

/// The removals of those of the keys that are gone, and the writes of those that have another
/// value.
fn changed<K: Ord + Copy, V: PartialEq + Copy>(
    keys: &BTreeSet<K>,
    installed: &SortedMap<K, V>,
    desired: &SortedMap<K, V>,
    op: impl Fn(K, Option<V>) -> Op,
) -> (Vec<Op>, Vec<Op>) {
    let mut removals = Vec::new();
    let mut writes = Vec::new();
    for key in keys {
        match desired.get(key) {
            value if value == installed.get(key) => {}
            None => removals.push(op(*key, None)),
            Some(value) => writes.push(op(*key, Some(*value))),
        }
    }
    (removals, writes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use epguard_common::{Action, Mode, Reason, Uid, UidState};

    const X: Addr = Addr::v4([10, 244, 1, 10]);
    const SHOP: ServiceNumber = ServiceNumber { number: 1 };
    const VIP: Vip = Vip {
        addr: Addr::v4([10, 96, 0, 1]),
        port: 80,
        protocol: 6,
        reserved: 0,
    };
    const TARGET: DenialKey = DenialKey::new(X, SHOP, 8080, 6);

    pub(crate) const DENIAL: Denial = Denial {
        dead_uid: Uid::NONE,
        owner_uid: Uid::NONE,
        boot_id: Uid::NONE,
        reason: Reason::DeadBackend,
        uid_state: UidState::Dead,
        mode: Mode::Enforce,
        stopped: 0,
        action: Action::Unset,
    };

    fn denying(reason: Reason) -> Tables {
        let denial = Denial { reason, ..DENIAL };
        Tables {
            suspects: SortedMap::from_iter([(
                X,
                Suspect {
                    flags: Suspect::DENIED,
                    ..Suspect::default()
                },
            )]),
            services: SortedMap::from_iter([(VIP, SHOP)]),
            denied: SortedMap::from_iter([(TARGET, denial)]),
            ..Tables::default()
        }
    }

    fn tables(installed: &Tables, desired: &Tables) -> Vec<Op> {
        super::tables(installed, desired, &Changes::between(installed, desired))
    }

    #[test]
    fn a_suspect_is_written_after_its_denial_and_a_denial_is_removed_first() {
        let (none, reused) = (Tables::default(), denying(Reason::Reused));
        let ops = tables(&none, &reused);
        assert!(
            matches!(
                *ops,
                [
                    Op::Denial(_, Some(_)),
                    Op::Service(_, Some(_)),
                    Op::Suspect(_, Some(_))
                ]
            ),
            "{ops:?}"
        );
        let ops = tables(&reused, &none);
        assert!(
            matches!(
                *ops,
                [
                    Op::Denial(_, None),
                    Op::Suspect(_, None),
                    Op::Service(_, None)
                ]
            ),
            "{ops:?}"
        );
        let ops = tables(&reused, &denying(Reason::DeadBackend));
        assert!(
            matches!(&*ops, [Op::Denial(_, Some(d))] if d.reason == Reason::DeadBackend),
            "{ops:?}"
        );
        assert_eq!(tables(&reused, &reused), []);
    }

    /// As many denials from `first` on, all of them redirected.
    fn redirecting(first: u16, count: u16) -> Tables {
        let mut tables = denying(Reason::DeadBackend);
        let denial = Denial {
            action: Action::Redirect,
            ..DENIAL
        };
        tables.denied.remove(&TARGET);
        for port in first..first + count {
            let target = DenialKey { port, ..TARGET };
            tables.denied.insert(target, denial);
            let backends = Backends {
                count: 1,
                sticky: first.into(),
                ..Backends::default()
            };
            tables.backends.insert(target, backends);
        }
        tables
    }

    #[test]
    fn a_full_map_takes_replacements_and_no_denial_redirects_without_backends() {
        let redirected = redirecting(1, 3).denied;
        let rejected = redirected.iter().map(|(key, denial)| {
            (
                *key,
                Denial {
                    action: Action::Reject,
                    ..*denial
                },
            )
        });
        let not_redirected = Tables {
            denied: rejected.collect(),
            backends: SortedMap::default(),
            ..redirecting(1, 3)
        };
        let all = [
            redirecting(1, 3),
            redirecting(3, 3),
            redirecting(10, 3),
            not_redirected,
            Tables::default(),
        ];
        for (installed, desired) in all
            .iter()
            .flat_map(|from| all.iter().map(move |to| (from, to)))
        {
            let mut between = installed.clone();
            for op in tables(installed, desired) {
                op.apply(&mut between);
                let Tables {
                    denied, backends, ..
                } = &between;
                assert!(denied.len() <= 3 && backends.len() <= 3);
                let redirected = denied
                    .iter()
                    .filter(|(_, denial)| denial.action == Action::Redirect);
                assert!(
                    redirected
                        .map(|(key, _)| key)
                        .all(|key| backends.contains_key(key))
                );
            }
            assert_eq!(between, *desired);
        }
    }

    #[test]
    fn an_entry_for_another_dead_pod_is_a_new_entry() {
        let by = |text| OrphanIp {
            dead: Uid::parse(text).unwrap(),
            mode: Mode::Enforce,
            range: Addr::default(),
            lifted: None,
        };
        let orphan_ip = |text| Tables {
            terminated: [(X, by(text))].into(),
            ..Tables::default()
        };
        let (a, b) = (orphan_ip("a"), orphan_ip("b"));
        assert_eq!(tables(&a, &a), []);
        assert_eq!(
            tables(&a, &b),
            [Op::Terminated(X, None), Op::Terminated(X, Some(by("b")))]
        );
        assert_eq!(tables(&b, &Tables::default()), [Op::Terminated(X, None)]);
    }
}
