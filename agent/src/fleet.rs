//! Which modes hold on this node: those of its own flags, or what the `ConfigMap` of the fleet wants. Pure.
//!
//! A wish is carried out when it changes, so that what an operator sets on one node (`epguard mode`) stands until then.

use crate::facts::{self, Change, Wish};
use epguard_common::{Mode, ReasonModes};

/// What is wanted.
#[derive(Debug)]
pub struct Fleet {
    flags: Modes,
    wish: Option<Wish>,
    /// Whether the API has said what there is.
    heard: bool,
    carried_out: Option<Modes>,
}

/// The modes of a node, and who wants them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// Most that is done.
    pub mode: Mode,
    /// Most that is done for a reason.
    pub reasons: ReasonModes,
    /// Who says so.
    pub source: Source,
}

/// Who says what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The agent's own command line.
    Flags,
    /// The `ConfigMap`.
    ConfigMap,
    /// The `ConfigMap`, because the node is a canary.
    Canary,
}

impl Source {
    /// As the status writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::ConfigMap => "configmap",
            Self::Canary => "configmap, canary",
        }
    }
}

impl Fleet {
    /// Nothing is heard yet.
    #[must_use]
    pub const fn new(mode: Mode, reasons: ReasonModes) -> Self {
        let source = Source::Flags;
        Self {
            flags: Modes {
                mode,
                reasons,
                source,
            },
            wish: None,
            heard: false,
            carried_out: None,
        }
    }

    /// The `ConfigMap` is so, or is gone. One that nobody understands changes nothing.
    pub fn hear(&mut self, change: Change<facts::Fleet>) {
        let there = match change {
            Change::Reset(all) => all.into_iter().next(),
            Change::Applied(fleet) => Some(fleet),
            Change::Deleted(_) => None,
        };
        match there {
            None => (self.wish, self.heard) = (None, true),
            Some(facts::Fleet(Some(wish))) => (self.wish, self.heard) = (Some(wish), true),
            Some(facts::Fleet(None)) => {}
        }
    }

    /// The modes, if they are others than before.
    pub fn take_change(&mut self, canary: bool) -> Option<Modes> {
        let wanted = self.wanted(canary);
        if !self.heard || self.carried_out == Some(wanted) {
            return None;
        }
        self.carried_out = Some(wanted);
        Some(wanted)
    }

    /// Who wanted what was carried out last.
    #[must_use]
    pub fn source(&self) -> Source {
        self.carried_out.map_or(Source::Flags, |modes| modes.source)
    }

    fn wanted(&self, canary: bool) -> Modes {
        let Some(wish) = &self.wish else {
            return self.flags;
        };
        let (mode, source) = match wish.canary_mode.filter(|_| canary) {
            Some(mode) => (mode, Source::Canary),
            None => (wish.mode.unwrap_or(self.flags.mode), Source::ConfigMap),
        };
        let mut reasons = self.flags.reasons;
        for (reason, mode) in &wish.reasons {
            if let Some(own) = reasons.of(*reason) {
                *own = *mode;
            }
        }
        Modes {
            mode,
            reasons,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::DEFAULT;
    use epguard_common::Reason;

    fn wish(mode: Option<Mode>, canary_mode: Option<Mode>) -> facts::Fleet {
        facts::Fleet(Some(Wish {
            mode,
            canary_mode,
            ..Wish::default()
        }))
    }

    fn change(fleet: &mut Fleet, canary: bool) -> Option<(Mode, &'static str)> {
        let modes = fleet.take_change(canary)?;
        Some((modes.mode, modes.source.as_str()))
    }

    #[test]
    fn what_the_fleet_wants_is_carried_out_once_and_the_flags_come_back_with_its_end() {
        let mut fleet = Fleet::new(Mode::Observe, DEFAULT);
        assert_eq!(change(&mut fleet, false), None, "nobody knows yet");
        fleet.hear(Change::Reset(vec![wish(Some(Mode::Enforce), None)]));
        assert_eq!(change(&mut fleet, false), Some((Mode::Enforce, "configmap")));
        assert_eq!(change(&mut fleet, false), None);
        fleet.hear(Change::Applied(facts::Fleet(None)));
        assert_eq!(change(&mut fleet, false), None, "nobody understands it");
        fleet.hear(Change::Deleted(facts::Fleet(None)));
        assert_eq!(change(&mut fleet, false), Some((Mode::Observe, "flags")));
    }

    #[test]
    fn canaries_are_first_and_may_go_back_alone() {
        let mut fleet = Fleet::new(Mode::Off, DEFAULT);
        fleet.hear(Change::Applied(wish(Some(Mode::Observe), Some(Mode::Enforce))));
        assert_eq!(
            change(&mut fleet, true),
            Some((Mode::Enforce, "configmap, canary"))
        );
        assert_eq!(change(&mut fleet, false), Some((Mode::Observe, "configmap")));
        fleet.hear(Change::Applied(wish(Some(Mode::Observe), None)));
        assert_eq!(change(&mut fleet, true), None, "the same for all");
    }

    #[test]
    fn a_reason_has_the_mode_that_is_wished_for_and_the_others_keep_their_flags() {
        let mut fleet = Fleet::new(Mode::Enforce, DEFAULT);
        let reasons = [(Reason::Terminated, Mode::Observe)].into();
        let wish = Wish {
            reasons,
            ..Wish::default()
        };
        fleet.hear(Change::Applied(facts::Fleet(Some(wish))));
        let modes = fleet.take_change(false).unwrap();
        let expected = ReasonModes {
            terminated: Mode::Observe,
            ..DEFAULT
        };
        assert_eq!((modes.mode, modes.reasons), (Mode::Enforce, expected));
    }
}
