//! Reads the samples of metrics from the status and the kernel's counters.

use super::text::{Sample, Value};
use crate::kernel::maps::Counters;
use crate::shared::status::{Fill, Status, Watch};
use epguard_common::{Count, Effect, Outcome, Reason};

/// What metrics are read from.
#[derive(Debug)]
pub struct Moment {
    /// The agent's state.
    pub status: Status,
    /// COUNTERS.
    pub counters: Counters,
}

/// The sample of a metric without labels.
pub fn one<'a>(value: impl Into<Value<'a>>) -> Vec<Sample<'a>> {
    vec![(vec![], value.into())]
}

/// The same for milliseconds; none if they are unknown.
pub fn millis<'a>(ms: Option<u64>) -> Vec<Sample<'a>> {
    ms.map(|ms| one(Value::millis(ms))).unwrap_or_default()
}

/// Samples by the value of one label.
pub fn each<'a, V: Into<Value<'a>>>(values: impl IntoIterator<Item = (&'a str, V)>) -> Vec<Sample<'a>> {
    let values = values.into_iter();
    values.map(|(label, value)| (vec![label], value.into())).collect()
}

/// A sample for each reason.
pub fn reasons<'a, V: Into<Value<'a>>>(of: impl Fn(&Reason) -> V) -> Vec<Sample<'a>> {
    each(Reason::TO_DENY.map(|reason| (reason.as_str(), of(&reason))))
}

impl Moment {
    fn count(&self, reason: Reason, outcome: Outcome) -> Count {
        let count = self.counters.get(&(reason, outcome)).copied();
        count.unwrap_or_default()
    }

    /// Every reason with every denial, even if there was none.
    pub(super) fn denied(&self, of: fn(Count) -> u64) -> Vec<Sample<'_>> {
        let each = |reason: Reason| {
            Outcome::of_denials().filter_map(move |outcome| {
                let (action, mode) = match outcome.effect() {
                    Effect::Stopped(action) => (action.as_str(), "enforce"),
                    Effect::Observed => ("pass", "observe"),
                    Effect::Passed | Effect::Beside(_) => return None,
                };
                Some((vec![reason.as_str(), action, mode], of(self.count(reason, outcome)).into()))
            })
        };
        Reason::TO_DENY.into_iter().flat_map(each).collect()
    }

    /// Only what occurred.
    pub(super) fn passed(&self, of: fn(Count) -> u64) -> Vec<Sample<'_>> {
        let counted = self.counters.iter().filter(|(_, count)| count.packets > 0);
        counted
            .filter(|((_, outcome), _)| outcome.effect() == Effect::Passed)
            .map(|((reason, outcome), count)| (vec![reason.as_str(), outcome.as_str()], of(*count).into()))
            .collect()
    }

    /// The packets of one outcome, for all reasons.
    pub(super) fn sum(&self, outcome: Outcome) -> Vec<Sample<'_>> {
        let each = Reason::ALL.map(|reason| self.count(reason, outcome).packets);
        one(each.into_iter().sum::<u64>())
    }

    pub(super) fn watches<'a>(&'a self, of: fn(&'a Watch) -> Option<Value<'a>>) -> Vec<Sample<'a>> {
        let watches = self.status.watches.iter();
        each(watches.filter_map(|(name, watch)| Some((name.as_str(), of(watch)?))))
    }

    pub(super) fn maps(&self, of: fn(&Fill) -> usize) -> Vec<Sample<'_>> {
        let maps = self.status.figures.maps.iter();
        each(maps.map(|(name, fill)| (name.as_str(), of(fill))))
    }

    pub(super) fn interfaces(&self) -> Vec<Sample<'_>> {
        let interfaces = self.status.interfaces.iter();
        let selected = interfaces.filter(|interface| !interface.waiting);
        let (hooked, bare): (Vec<_>, Vec<_>) = selected.partition(|interface| interface.attached);
        each([("yes", hooked.len()), ("no", bare.len())])
    }
}
