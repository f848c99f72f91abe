//! Reads the samples of the metrics that have labels.

use super::metric::{Moment, Sample, Value};
use crate::shared::status::{Cause, Evicted, Fill, Watch};
use epguard_common::{Count, Effect, Mode, Outcome, Reason};
use strum::VariantArray as _;

/// The values of the labels `action` and `mode` for a denied packet; `None` if the outcome is no denial's.
fn denial(outcome: Outcome) -> Option<(&'static str, Mode)> {
    match outcome.effect() {
        Effect::Stopped(action) => Some((action.as_str(), Mode::Enforce)),
        Effect::Observed => Some(("pass", Mode::Observe)),
        Effect::Passed | Effect::Beside(_) => None,
    }
}

/// The sample of a metric without labels.
pub fn one<'a>(value: impl Into<Value<'a>>) -> Vec<Sample<'a>> {
    vec![(vec![], value.into())]
}

/// The same, or none if it is unknown.
pub fn optional(value: Option<Value<'_>>) -> Vec<Sample<'_>> {
    value.map(one).unwrap_or_default()
}

/// Samples by the value of one label.
fn each<'a, V: Into<Value<'a>>>(values: impl IntoIterator<Item = (&'a str, V)>) -> Vec<Sample<'a>> {
    let values = values.into_iter();
    values.map(|(label, value)| (vec![label], value.into())).collect()
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
                let (action, mode) = denial(outcome)?;
                let labels = vec![reason.as_str(), action, mode.as_str()];
                Some((labels, of(self.count(reason, outcome)).into()))
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

    pub(super) fn wrong_denies(&self) -> Vec<Sample<'_>> {
        let wrong = |reason: Reason| self.status.wrong_denies.get(&reason).copied();
        each(Reason::TO_DENY.map(|reason| (reason.as_str(), wrong(reason).unwrap_or_default())))
    }

    pub(super) fn demoted(&self) -> Vec<Sample<'_>> {
        let demoted = |reason: Reason| self.status.demoted.contains(&reason);
        each(Reason::TO_DENY.map(|reason| (reason.as_str(), demoted(reason))))
    }

    pub(super) fn gaps(&self) -> Vec<Sample<'_>> {
        let gaps = |cause: Cause| self.status.translators.gaps.iter().any(|gap| gap.cause == cause);
        each(Cause::VARIANTS.iter().map(|cause| ((*cause).into(), gaps(*cause))))
    }

    pub(super) fn evicted(&self) -> Vec<Sample<'_>> {
        let Evicted { drops, review } = self.status.figures.evicted;
        each([("drops", drops), ("review", review)])
    }

    pub(super) fn mode(&self) -> Vec<Sample<'_>> {
        each(Mode::ALL.map(|mode| (mode.as_str(), self.status.mode == Some(mode))))
    }

    pub(super) fn watches<'a>(&'a self, of: fn(&'a Watch) -> Option<Value<'a>>) -> Vec<Sample<'a>> {
        let watches = self.status.watches.iter();
        each(watches.filter_map(|(name, watch)| Some((name.as_str(), of(watch)?))))
    }

    pub(super) fn pods(&self) -> Vec<Sample<'_>> {
        let pods = self.status.figures.pods.iter();
        each(pods.map(|(state, n)| (state.as_str(), *n)))
    }

    pub(super) fn ips(&self) -> Vec<Sample<'_>> {
        let ips = self.status.figures.ips.iter();
        each(ips.map(|(state, n)| (state.as_str(), *n)))
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
