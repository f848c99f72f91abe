//! One run of a story: the variant that it runs in.

use std::collections::BTreeSet;
use std::fmt;

use super::format::{Action, Caller, Family, First, Runs};
use crate::neighbour::Place;
use crate::net::{Cni, Overlay, TopologyOptions};
use crate::proxy::ProxyOptions;

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
    /// Every combination, in the order of the lists.
    pub fn all(runs: &Runs) -> Vec<Self> {
        let mut variants = vec![Self::FIRST];
        variants = each(&variants, &runs.cni, |variant, cni| variant.cni = cni);
        variants = each(&variants, &runs.overlay, |variant, overlay| {
            variant.overlay = overlay;
        });
        variants = each(&variants, &some(&runs.first), |variant, first| {
            variant.first = first;
        });
        variants = each(&variants, &some(&runs.place), |variant, place| {
            variant.place = place;
        });
        variants = each(&variants, &some(&runs.action), |variant, action| {
            variant.action = action;
        });
        variants = each(&variants, &runs.caller, |variant, caller| variant.caller = caller);
        each(&variants, &runs.family, |variant, family| variant.family = family)
    }

    /// Few combinations that together contain each value of each list: a greedy search takes next the one with most new
    /// values.
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

    const FIRST: Self = Self {
        family: Family::Ipv4,
        caller: Caller::Pod,
        cni: Cni::Ptp,
        overlay: Overlay::None,
        first: None,
        place: None,
        action: None,
    };

    /// Each field with its value.
    fn values(self) -> BTreeSet<String> {
        format!("{self:?}").split(", ").map(str::to_owned).collect()
    }

    pub(super) fn topology(self) -> TopologyOptions {
        TopologyOptions { cni: self.cni, overlay: self.overlay }
    }

    pub(super) fn proxy(self) -> ProxyOptions {
        ProxyOptions { masquerade_all: self.caller == Caller::Masquerade }
    }

    /// The origin of calls without `from`.
    pub(super) fn caller_host(self) -> &'static str {
        match self.caller {
            Caller::Pod
            | Caller::Masquerade
            | Caller::SocketLbPod
            | Caller::SocketLbHostns
            | Caller::PacketLb => "client",
            Caller::Node | Caller::SocketLbNode => "node-a",
            Caller::Nodeport => "external",
        }
    }
}

/// The differences from the default: IPv4 pods on a point-to-point CNI.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.family)?;
        if self.caller != Caller::Pod {
            write!(f, " {}", self.caller)?;
        }
        if self.cni != Cni::Ptp {
            write!(f, " {}", self.cni)?;
        }
        if self.overlay == Overlay::Vxlan {
            f.write_str(" vxlan")?;
        }
        f.write_str(self.first.map_or("", |first| match first {
            First::Neighbour => " neighbour-first",
            First::Epguard => " epguard-first",
            First::Later => " later",
        }))?;
        self.place.map_or(Ok(()), |place| write!(f, " {place}"))?;
        self.action.map_or(Ok(()), |action| write!(f, " {action}"))
    }
}

/// Each variant with each value.
fn each<T: Copy>(variants: &[Variant], values: &[T], set: impl Fn(&mut Variant, T)) -> Vec<Variant> {
    let with = |variant: &Variant, value: &T| {
        let mut variant = *variant;
        set(&mut variant, *value);
        variant
    };
    variants
        .iter()
        .flat_map(|variant| values.iter().map(move |value| (variant, value)))
        .map(|(variant, value)| with(variant, value))
        .collect()
}

/// The values of a list; `None` alone for an empty one, which leaves the choice to the story.
fn some<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_runs_once_for_each_combination() {
        let runs = Runs { caller: vec![Caller::Pod, Caller::Node], ..Runs::default() };
        let names: Vec<String> = Variant::all(&runs).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["ipv4", "ipv6", "ipv4 node", "ipv6 node"]);
    }

    #[test]
    fn a_sample_shows_each_value_of_each_list() {
        let runs = Runs {
            place: vec![Place::Before, Place::Behind, Place::Between],
            action: vec![Action::Drop, Action::Reject],
            ..Runs::default()
        };
        assert_eq!(Variant::all(&runs).len(), 12);
        let names: Vec<String> = Variant::sample(&runs).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["ipv4 before drop", "ipv6 behind reject", "ipv4 between drop"]);
    }
}
