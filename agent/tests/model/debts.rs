//! What has to be denied, and for how long it was not: whatever else goes on in the cluster.

use super::*;
use std::collections::BTreeMap;

/// Within which time what is provable is denied: a second list, which is asked for after half a
/// second and within two, and the probe that proves it, of up to four.
pub const DUE: Duration = Duration::from_secs(8);
/// The same after a fault: the longest back-off, a list, a second one.
pub const AFTER_FAULT: Duration = Duration::from_secs(45);
/// The same after a compaction: no probe proves a quiet stream before its next bookmark, which
/// comes once a minute.
pub const AFTER_COMPACTION: Duration = Duration::from_secs(75);
/// Second lists that a namespace gets at once, and the time after which it gets as many again: one
/// each 30 s.
pub const SHARE: usize = 8;
pub const SHARE_RETURNS: Duration = Duration::from_mins(4);
/// How long a denial may be off for the facts of its own Service: they end it until they are
/// judged.
const LENIENCE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Debts {
    of: BTreeMap<(&'static str, Ip), Debt>,
    /// When the agent has recovered from all faults.
    recovered: Option<Instant>,
}

struct Debt {
    since: Instant,
    seen: Instant,
    was_denied: bool,
    /// For how long it was not denied since it is due; time in which it is denied makes up for a
    /// tenth.
    unpaid: Duration,
}

impl Debts {
    /// A fault is in effect, from which the agent recovers within this time.
    pub fn disturb(&mut self, within: Duration) {
        self.of.clear();
        self.recovered = self.recovered.max(Some(Instant::now() + within));
    }

    /// Something else than the crowd has changed the cluster: the agent may ask for a second list
    /// of what is there then.
    pub fn restart(&mut self) {
        let now = Instant::now();
        self.of.values_mut().for_each(|debt| debt.since = now);
    }

    /// Looks at everything that is provable. An error says what is not denied, though nothing but
    /// time has passed for it.
    pub fn check(
        &mut self,
        provable: &[(Service, Ip)],
        denied: &[Denied],
        fault: bool,
        costs: Costs,
    ) -> Result<(), (Service, Ip)> {
        let now = Instant::now();
        if fault {
            self.disturb(AFTER_FAULT);
            return Ok(());
        }
        let recovered = self.recovered.is_none_or(|at| now >= at);
        let mut debts = BTreeMap::new();
        for (service, ip) in provable {
            let is_denied = denied.iter().any(|denied| denied.is_of(service, *ip));
            let key = (service.name, *ip);
            let new = Debt {
                since: now,
                seen: now,
                was_denied: is_denied,
                unpaid: Duration::ZERO,
            };
            let mut debt = self.of.remove(&key).unwrap_or(new);
            let passed = now - debt.seen;
            if recovered && debt.seen >= debt.since + DUE + costs.backlog() {
                if debt.was_denied {
                    debt.unpaid = debt.unpaid.saturating_sub(passed / 10);
                } else {
                    debt.unpaid += passed;
                }
            }
            (debt.seen, debt.was_denied) = (now, is_denied);
            if debt.unpaid > LENIENCE + costs.backlog() {
                return Err((*service, *ip));
            }
            debts.insert(key, debt);
        }
        self.of = debts;
        Ok(())
    }
}
