//! Denied flows by Service, pod meant and pod hit: which are shown, which are new, and their text.
//!
//! ```text
//! rows -> a table; where it is wider than the screen, a card each
//! ```

mod cards;
mod row;
mod text;

pub use row::DropsRow;
pub use text::{drops_text, line_of, nothing_text};

use crate::shared::args::{ServiceArgs, one_of};
use crate::shared::drops::{Dropped, Kind};
use clap::Args;
use epguard_common::Reason;
use std::collections::BTreeMap;
use std::time::Instant;

/// Which denials are shown.
#[derive(Debug, Clone, Args)]
pub struct DropsFilter {
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// Only this reason
    #[arg(long, value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
}

impl DropsFilter {
    /// Whether it leaves any denial out.
    pub fn is_narrowed(&self) -> bool {
        self.reason.is_some() || !self.services.is_all()
    }

    /// Whether it shows denials of this kind.
    pub fn wants(&self, kind: &Kind) -> bool {
        self.services.wants(&kind.service)
            && self
                .reason
                .is_none_or(|wanted| kind.reason == wanted.as_str())
    }

    /// The denials that it shows.
    pub fn select(&self, mut all: Vec<Dropped>) -> Vec<Dropped> {
        all.retain(|dropped| self.wants(&dropped.kind));
        all
    }
}

/// Which packets are new since the counts before.
#[derive(Debug)]
pub struct Follower {
    begun: Instant,
    counted: BTreeMap<Kind, Dropped>,
}

impl Follower {
    /// For denials since then.
    pub const fn since(begun: Instant) -> Self {
        let counted = BTreeMap::new();
        Self { begun, counted }
    }

    /// The new packets of each kind, the latest last. Of a kind that was denied before it begun,
    /// the first counts are not.
    pub fn take_new(&mut self, now: Vec<Dropped>) -> Vec<Dropped> {
        // An agent that has just started has read no counts yet.
        if now.is_empty() {
            return Vec::new();
        }
        let before = std::mem::take(&mut self.counted);
        let mut new = Vec::new();
        for dropped in now.into_iter().rev() {
            let is_new = u128::from(dropped.first_ms_ago) <= self.begun.elapsed().as_millis();
            let counted = match before.get(&dropped.kind) {
                // Fewer than before: it is counted anew.
                Some(counted) if counted.packets > dropped.packets => None,
                Some(counted) => Some(counted),
                None if is_new => None,
                None => Some(&dropped),
            };
            let since =
                |now: u64, field: fn(&Dropped) -> u64| now.saturating_sub(counted.map_or(0, field));
            new.push(Dropped {
                packets: since(dropped.packets, |counted| counted.packets),
                bytes: since(dropped.bytes, |counted| counted.bytes),
                openings: since(dropped.openings, |counted| counted.openings),
                ..dropped.clone()
            });
            self.counted.insert(dropped.kind.clone(), dropped);
        }
        new.retain(|added| added.packets > 0);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::args::parsed;

    #[test]
    fn filters_show_only_the_matching_kinds() {
        let wants =
            |arguments: &[&str], kind: &Kind| parsed::<DropsFilter>(arguments).unwrap().wants(kind);
        let web = Kind::sample(Reason::Reused);
        for arguments in [
            &[][..],
            &["-n", "shop"],
            &["--service", "shop/web"],
            &["--reason", "reused"],
        ] {
            assert!(wants(arguments, &web), "{arguments:?}");
        }
        for arguments in [
            &["-n", "sho"][..],
            &["--service", "shop/we"],
            &["--reason", "terminated"],
        ] {
            assert!(!wants(arguments, &web), "{arguments:?}");
        }
        assert!(!wants(
            &["-n", "shop"],
            &Kind {
                service: "-".into(),
                ..Kind::sample(Reason::Terminated)
            }
        ));
    }

    #[test]
    fn new_packets_are_those_since_the_last_counts() {
        let entry = |packets: u64, first_ms_ago: u64| Dropped {
            kind: Kind::sample(Reason::Reused),
            packets,
            bytes: 60 * packets,
            openings: packets,
            clients: vec![],
            first_ms_ago,
            last_ms_ago: packets,
        };
        let (old, young) = (u64::MAX, 0);
        for (answers, added) in [
            // Of a kind from before, only what is added later; of a new one, all.
            ([vec![entry(4, old)], vec![entry(7, old)]], [None, Some(3)]),
            (
                [vec![entry(4, young)], vec![entry(4, young)]],
                [Some(4), None],
            ),
            // It is counted anew: the agent lost its counts, or made room for others.
            ([vec![entry(4, old)], vec![entry(3, old)]], [None, Some(3)]),
            (
                [vec![entry(4, young)], vec![entry(2, young)]],
                [Some(4), Some(2)],
            ),
        ] {
            let mut follower = Follower::since(Instant::now());
            let mut new = |answer: &[Dropped]| {
                let new = follower.take_new(answer.to_vec());
                // An agent that has just started has no counts.
                assert_eq!(follower.take_new(vec![]), []);
                new.first()
                    .map(|new| [new.packets, new.bytes, new.openings])
            };
            let expected =
                added.map(|packets| packets.map(|packets| [packets, 60 * packets, packets]));
            assert_eq!(
                [new(&answers[0]), new(&answers[1])],
                expected,
                "{answers:?}"
            );
        }
    }
}
