//! One run of a story: the variant that it runs in.

use std::collections::BTreeSet;
use std::fmt;

use super::format::{Action, Caller, Family, First, Runs};
use crate::neighbour::Place;
use crate::net::{Cni, Overlay};

/// One combination of [`Runs`].
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The family of every address.
    pub family: Family,
    /// Origin of the calls.
    pub caller: Caller,
    /// How pods are attached.
    pub cni: Cni,
    /// How nodes reach each other's pods.
    pub overlay: Overlay,
    /// Which program starts first; none: as in the story.
    pub first: Option<First>,
    /// Where the neighbour's programs run; none: as in the story.
    pub place: Option<Place>,
    /// The action for denied packets; none: as in the story.
    pub action: Option<Action>,
}

impl Variant {
    /// Every combination; the family changes first.
    pub fn all(runs: &Runs) -> Vec<Self> {
        let variant = |number: usize| {
            let mut rest = number;
            let variant = Self {
                family: pick(&mut rest, &runs.family)?,
                caller: pick(&mut rest, &runs.caller)?,
                action: pick(&mut rest, &runs.action),
                place: pick(&mut rest, &runs.place),
                first: pick(&mut rest, &runs.first),
                overlay: pick(&mut rest, &runs.overlay)?,
                cni: pick(&mut rest, &runs.cni)?,
            };
            (rest == 0).then_some(variant)
        };
        (0..).map_while(variant).collect()
    }

    /// Few combinations that together contain each value of each list: a greedy search takes next
    /// the one with most new values.
    pub fn sample(runs: &Runs) -> Vec<Self> {
        let all = Self::all(runs);
        let mut shown = BTreeSet::new();
        let mut sample = Vec::new();
        loop {
            let new = |variant: &Self| variant.values().difference(&shown).count();
            let most = all.iter().map(new).max().unwrap_or_default();
            let Some(variant) = all.iter().find(|variant| new(variant) == most && most > 0) else {
                return sample;
            };
            shown.extend(variant.values());
            sample.push(*variant);
        }
    }

    /// Each field with its value.
    fn values(self) -> BTreeSet<String> {
        format!("{self:?}").split(", ").map(str::to_owned).collect()
    }

    /// The origin of calls without `from`.
    pub(super) fn caller_host(self) -> &'static str {
        match self.caller {
            Caller::Node | Caller::SocketLbNode => "node-a",
            Caller::Nodeport => "external",
            _ => "client",
        }
    }
}

/// The differences from the default: IPv4 pods on a point-to-point CNI.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            caller,
            cni,
            overlay,
            first,
            place,
            action,
        } = self;
        let first = first.map(|first| match first {
            First::Later => first.to_string(),
            First::Neighbour | First::Epguard => format!("{first}-first"),
        });
        let words = [
            Some(family.to_string()),
            (*caller != Caller::Pod).then(|| caller.to_string()),
            (*cni != Cni::Ptp).then(|| cni.to_string()),
            (*overlay != Overlay::None).then(|| overlay.to_string()),
            first,
            place.map(|place| place.to_string()),
            action.map(|action| action.to_string()),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// The value of a list whose turn it is in a count, in which the list is one digit; none of an
/// empty list.
fn pick<T: Copy>(count: &mut usize, values: &[T]) -> Option<T> {
    let base = values.len().max(1);
    let value = values.get(*count % base).copied();
    *count /= base;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(variants: &[Variant]) -> Vec<String> {
        variants.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_scenario_runs_once_for_each_combination_and_a_sample_shows_each_value() {
        let runs = Runs {
            caller: vec![Caller::Pod, Caller::Node],
            ..Runs::default()
        };
        assert_eq!(
            names(&Variant::all(&runs)),
            ["ipv4", "ipv6", "ipv4 node", "ipv6 node"]
        );
        let place = vec![Place::Before, Place::Behind, Place::Between];
        let runs = Runs {
            place,
            action: vec![Action::Drop, Action::Reject],
            ..Runs::default()
        };
        assert_eq!(Variant::all(&runs).len(), 12);
        let sample = names(&Variant::sample(&runs));
        assert_eq!(
            sample,
            [
                "ipv4 before drop",
                "ipv6 behind reject",
                "ipv4 between drop"
            ]
        );
    }
}
