//! Which bits of `skb->tc_index` carry epguard's numbers on this node. Pure.
//!
//! Any program may use the field. A bit is free if no foreign program reads or sets it, in `tc_index` or in
//! `tc_classid`, which the kernel copies to `tc_index`. A program that cannot be read counts as a user of every bit.

use epguard_common::{CARRIER_ALL, CARRIER_HIGH};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `--intent-carrier`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntentCarrier {
    /// As many bits as foreign programs leave; an unreadable program counts as using all
    #[default]
    Auto,
    /// All 16 bits, also beside programs that cannot be read; never bits that a program is seen to use
    TcIndex,
    /// All but the low five bits, likewise
    TcIndexHigh,
    /// No bit: only sockets of the node itself and direct packets are judged, and nothing is rejected or redirected
    None,
}

impl IntentCarrier {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::TcIndex, Self::TcIndexHigh, Self::None];

    /// As `--intent-carrier` takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::TcIndex => "tc-index",
            Self::TcIndexHigh => "tc-index-high",
            Self::None => "none",
        }
    }

    /// Its meaning, for `--help`.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Auto => "as many bits as foreign programs leave; an unreadable program counts as using all",
            Self::TcIndex => {
                "all 16 bits, also beside programs that cannot be read; never bits that a program is seen to use"
            }
            Self::TcIndexHigh => "all but the low five bits, with the same exceptions",
            Self::None => {
                "no bit: only sockets of the node itself and direct packets are judged, and nothing is rejected or redirected"
            }
        }
    }
}

/// What carries a packet's intent from the ingress hook to the egress hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// No bits.
    #[default]
    None,
    /// `tc_index` without its low five bits: 1,015 Services at once.
    TcIndexHigh,
    /// `tc_index`.
    TcIndex,
}

impl Carrier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::TcIndexHigh, Self::TcIndex];

    /// The bits that the programs may use.
    #[must_use]
    pub const fn bits(self) -> u16 {
        match self {
            Self::None => 0,
            Self::TcIndexHigh => CARRIER_HIGH,
            Self::TcIndex => CARRIER_ALL,
        }
    }

    /// As the status, the metrics and `--intent-carrier` write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::TcIndexHigh => "tc-index-high",
            Self::TcIndex => "tc-index",
        }
    }

    /// The largest carrier without any of these bits.
    const fn without(used: u16) -> Self {
        if used == 0 {
            Self::TcIndex
        } else if used & CARRIER_HIGH == 0 {
            Self::TcIndexHigh
        } else {
            Self::None
        }
    }
}

/// A foreign program, filter or qdisc that may use the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// For people: its name, number and place.
    pub label: String,
    /// Bits of the two fields that it reads or sets.
    pub bits: u16,
    /// True if the bits are assumed, since its instructions cannot be read.
    pub assumed: bool,
}

/// Which carrier is in use, and why. Part of the status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The carrier.
    pub in_use: Carrier,
    /// One sentence.
    pub why: String,
    /// The foreign programs that rule out a larger carrier.
    pub decided_by: Vec<String>,
    /// Services whose number the carrier has no room for: their packets pass, and are counted as `not-carried`.
    pub services_without_room: usize,
}

/// Chooses the carrier by the bits that foreign programs use. `Err`: why they could not be listed.
#[must_use]
pub fn decide(choice: IntentCarrier, foreign: Result<&[Foreign], &str>) -> Decision {
    let most = match choice {
        IntentCarrier::None => {
            let why = "--intent-carrier none".to_owned();
            return decision(Carrier::None, why, vec![]);
        }
        IntentCarrier::TcIndexHigh => Carrier::TcIndexHigh,
        IntentCarrier::Auto | IntentCarrier::TcIndex => Carrier::TcIndex,
    };
    let known_only = choice != IntentCarrier::Auto;
    let foreign = match foreign {
        Ok(foreign) => foreign,
        Err(error) => {
            let why = format!("the programs on this node's interfaces cannot be listed: {error}");
            return decision(Carrier::None, why, vec![]);
        }
    };
    let users = || {
        foreign
            .iter()
            .filter(|one| one.bits != 0 && !(known_only && one.assumed))
    };
    let free = Carrier::without(users().fold(0, |used, one| used | one.bits));
    let by = users()
        .filter(|one| Carrier::without(one.bits) == free && free < most)
        .map(|one| one.label.clone());
    let assumed = users().any(|one| one.assumed);
    let why = match free {
        _ if free > most => "--intent-carrier tc-index-high",
        Carrier::TcIndex => "no other program uses tc_index or tc_classid",
        Carrier::TcIndexHigh => "other programs use the low five bits of tc_index only",
        Carrier::None if assumed => "a program that cannot be read may use tc_index",
        Carrier::None => "other programs use more than the low five bits of tc_index",
    };
    decision(free.min(most), why.to_owned(), by.collect())
}

/// The bits that the programs may use, over time. A number means something else with another carrier. So before the
/// bits change, none are permitted until no packet under way can carry an old number.
#[derive(Debug)]
pub struct Permission {
    bits: u16,
    /// Bits that were permitted before, and when that ended, `CLOCK_BOOTTIME`.
    before: (u16, Duration),
}

impl Permission {
    /// Starts with the bits that an earlier process permitted.
    #[must_use]
    pub const fn of(bits: u16) -> Self {
        Self {
            bits,
            before: (bits, Duration::ZERO),
        }
    }

    /// Longer than a packet waits for its neighbour to be resolved (three probes, one a second).
    pub const PAUSE: Duration = Duration::from_secs(4);

    /// The bits to permit now, given those that are free.
    pub fn next(&mut self, free: u16, now: Duration) -> u16 {
        if self.bits != free && self.bits != 0 {
            self.before = (self.bits, now);
            self.bits = 0;
        }
        let (before, ended) = self.before;
        if free == before || before == 0 || now.saturating_sub(ended) >= Self::PAUSE {
            self.bits = free;
        }
        self.bits
    }
}

fn decision(in_use: Carrier, why: String, mut decided_by: Vec<String>) -> Decision {
    decided_by.sort();
    decided_by.dedup();
    Decision {
        in_use,
        why,
        decided_by,
        services_without_room: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use IntentCarrier::{Auto, TcIndex, TcIndexHigh};

    fn foreign(label: &str, bits: u16) -> Foreign {
        Foreign {
            label: label.to_owned(),
            bits,
            assumed: false,
        }
    }

    fn unreadable() -> Foreign {
        Foreign {
            assumed: true,
            ..foreign("secret", 0xffff)
        }
    }

    fn carrier(choice: IntentCarrier, foreign: &[Foreign]) -> Carrier {
        decide(choice, Ok(foreign)).in_use
    }

    #[test]
    fn a_survey_that_fails_permits_no_bits_that_a_program_was_seen_to_use() {
        for choice in [IntentCarrier::TcIndex, IntentCarrier::TcIndexHigh] {
            assert_eq!(decide(choice, Err("EBUSY")).in_use, Carrier::None, "{choice:?}");
        }
    }

    #[test]
    fn bits_that_another_program_uses_are_never_used() {
        let cases = [
            (vec![], Carrier::TcIndex),
            (vec![foreign("quiet", 0)], Carrier::TcIndex),
            (vec![foreign("cilium", 0x1f)], Carrier::TcIndexHigh),
            (vec![foreign("cilium", 1), foreign("other", 0x20)], Carrier::None),
            (vec![unreadable()], Carrier::None),
        ];
        for (foreign, expected) in cases {
            assert_eq!(carrier(Auto, &foreign), expected, "{foreign:?}");
        }
    }

    #[test]
    fn an_operators_choice_overrides_unknown_bits_but_no_known_use() {
        assert_eq!(carrier(TcIndex, &[unreadable()]), Carrier::TcIndex);
        assert_eq!(carrier(TcIndex, &[foreign("cilium", 1)]), Carrier::TcIndexHigh);
        assert_eq!(carrier(TcIndexHigh, &[foreign("greedy", 0x8000)]), Carrier::None);
        assert_eq!(carrier(TcIndexHigh, &[]), Carrier::TcIndexHigh);
        assert_eq!(carrier(IntentCarrier::None, &[]), Carrier::None);
        assert_eq!(decide(Auto, Err("EPERM")).in_use, Carrier::None);
    }

    #[test]
    fn between_two_carriers_no_bits_are_permitted_until_old_numbers_have_left() {
        let s = Duration::from_secs;
        let mut permission = Permission::of(0);
        assert_eq!(permission.next(0xffff, s(10)), 0xffff, "the first one at once");
        assert_eq!(permission.next(0xffe0, s(11)), 0);
        assert_eq!(permission.next(0xffe0, s(14)), 0);
        assert_eq!(permission.next(0xffe0, s(15)), 0xffe0);
        assert_eq!(permission.next(0, s(16)), 0);
        assert_eq!(permission.next(0xffe0, s(17)), 0xffe0, "the same one at once");
        assert_eq!(permission.next(0xffff, s(18)), 0);
        assert_eq!(permission.next(0, s(19)), 0);
        assert_eq!(permission.next(0xffff, s(20)), 0, "0 in between changes nothing");
        assert_eq!(permission.next(0xffff, s(22)), 0xffff);
        assert_eq!(
            Permission::of(0xffff).next(0xffe0, s(1)),
            0,
            "of an earlier process"
        );
    }

    #[test]
    fn the_decision_names_the_program_that_made_it() {
        let found = [foreign("low", 1), foreign("greedy", 0xff), foreign("quiet", 0)];
        assert_eq!(decide(Auto, Ok(&found)).decided_by, ["greedy"]);
        assert_eq!(decide(Auto, Ok(&found[..1])).decided_by, ["low"]);
        assert!(decide(TcIndexHigh, Ok(&found[..1])).decided_by.is_empty());
    }
}
