//! While a list is applied in parts, denials cease to be in force, but none begins and none gets
//! stricter: an object further down the list may contradict it.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What the tables held before a list began.
pub struct Before {
    tables: Tables,
    lists_pods: bool,
}

impl Before {
    /// Before this fact, should it be a list.
    pub fn list(fact: &Fact, tables: &Tables) -> Self {
        Self {
            tables: tables.clone(),
            lists_pods: matches!(fact, Fact::Pod(Change::Reset(_))),
        }
    }

    /// Notes another list that begins meanwhile.
    pub fn note(&mut self, fact: &Fact) {
        self.lists_pods |= matches!(fact, Fact::Pod(Change::Reset(_)));
    }

    /// Compares the tables between two parts of the list.
    pub fn check(&self, now: &Tables) -> Result<(), TestCaseError> {
        let before = &self.tables;
        for (key, denial) in now.denied.iter().filter(|(key, _): &(&DenialKey, _)| {
            now.services.values().any(|number| *number == key.service)
        }) {
            let known = before.denied.get(key);
            prop_assert!(
                known.is_some_and(|known| is_kept(known, denial)),
                "{key:?} is denied as {denial:?}, before: {known:?}"
            );
            let rests_on_order =
                denial.reason == Reason::Reused && denial.uid_state == UidState::Retired;
            prop_assert!(
                !(self.lists_pods && rests_on_order),
                "a list shows no order of claims, but {key:?} is denied as {denial:?}"
            );
        }
        for (vip, number) in now.services.iter() {
            prop_assert_eq!(
                before.services.get(vip),
                Some(number),
                "{:?} is a new VIP",
                vip
            );
        }
        let proven = now.terminated.iter();
        for (ip, orphan_ip) in proven.filter(|(_, orphan_ip)| orphan_ip.lifted.is_none()) {
            let known = before.terminated.get(ip);
            prop_assert!(
                known.is_some_and(|known| {
                    known.lifted.is_none()
                        && known.dead == orphan_ip.dead
                        && orphan_ip.mode <= known.mode
                }),
                "{ip} is {orphan_ip:?}, before: {known:?}"
            );
        }
        Ok(())
    }
}

/// True if the denial stops no packet that the known one let pass.
fn is_kept(known: &Denial, denial: &Denial) -> bool {
    denial.dead_uid == known.dead_uid
        && denial.uid_state <= known.uid_state
        && denial.stopped >= known.stopped
        && denial.mode <= known.mode
        && (denial.reason == known.reason || denial.mode <= Mode::Observe)
}

/// Each denial holds by all that is known so far, with a mode that may be lower.
pub fn check_proofs(state: &State, fresh: &State) -> Result<(), TestCaseError> {
    let fresh: BTreeMap<_, _> = fresh
        .denials()
        .map(|(service, at, proven)| ((service, at), *proven))
        .collect();
    let in_force: BTreeSet<ServiceNumber> = state.tables().services.values().copied().collect();
    let numbers: BTreeMap<_, _> = state.numbers().iter().collect();
    let in_force = |service: &ObjectName| {
        numbers
            .get(service)
            .is_some_and(|number| in_force.contains(number))
    };
    for (service, at, proven) in state.denials().filter(|(service, ..)| in_force(service)) {
        let mut known = fresh.get(&(service, at)).copied();
        if let Some(known) = &mut known {
            prop_assert!(proven.mode <= known.mode, "{service:?} {at:?}");
            known.mode = proven.mode;
        }
        prop_assert_eq!(Some(proven), known.as_ref(), "{:?} {:?}", service, at);
    }
    Ok(())
}
