//! The modes in force on this node: those of its own flags, or those of the mode policy's
//! `ConfigMap`. Pure.
//!
//! An agent that starts keeps what an earlier one took from the `ConfigMap`, or each restart would
//! be a gap. A policy is applied only when it changes. So a mode that an operator sets on one node
//! (`epguard mode`) stays until then.

use crate::shared::status::ModeSource;
use epguard_common::{Config, Mode, Reason, ReasonModes};
use epguard_core::facts::{self, Change, ObjectName, Part};

/// The mode policy of this node.
#[derive(Debug)]
pub struct NodeModes {
    flags: Modes,
    /// Namespace and name of the `ConfigMap`, if the flags name one.
    config_map: Option<ObjectName>,
    answer: Answer,
    in_force: Modes,
}

/// What the API says of the `ConfigMap`.
#[derive(Debug)]
enum Answer {
    /// Nothing yet.
    None,
    /// This agent was refused it once: a server that has just started may not know the roles yet.
    Doubt,
    /// This agent may not read it.
    Refused,
    /// Its content; none if there is no `ConfigMap`.
    Content(Option<facts::ModePolicy>),
}

/// The modes of a node, and their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// The highest mode of the node.
    pub mode: Mode,
    /// The highest mode of each reason.
    pub reasons: ReasonModes,
    /// The source of these modes.
    pub source: ModeSource,
}

impl NodeModes {
    /// The modes before the `ConfigMap` is read. `pinned` is CONFIG as an earlier agent left it,
    /// all-zero if there was none, and shows whether it took its modes from the `ConfigMap`; if
    /// not, the lower ones count, for an operator may have lowered either.
    pub fn new(
        config_map: Option<ObjectName>,
        flags: (Mode, ReasonModes),
        pinned: &Config,
    ) -> Self {
        let flags = Modes {
            mode: flags.0,
            reasons: flags.1,
            source: ModeSource::Flags,
        };
        let earlier = Modes {
            mode: pinned.mode,
            reasons: pinned.configured,
            source: ModeSource::Pinned,
        };
        let in_force = match config_map {
            Some(_) if pinned.from_config_map != 0 => earlier,
            Some(_) if *pinned != Config::default() => flags.lower(earlier),
            _ => flags,
        };
        Self {
            flags,
            config_map,
            answer: Answer::None,
            in_force,
        }
    }

    /// Takes in the content of the `ConfigMap`, or its deletion.
    pub fn apply(&mut self, change: Change<facts::ModePolicy>) {
        let content = match change {
            Change::Reset(all) | Change::Part(Part { objects: all, .. }) => all.into_iter().next(),
            Change::Applied(policy) => Some(policy),
            Change::Deleted(_) | Change::Gone(_) => None,
        };
        self.answer = Answer::Content(content);
    }

    /// The API server does not let this agent read the `ConfigMap`. What was read before stays.
    pub fn refuse(&mut self) {
        match self.answer {
            Answer::None => self.answer = Answer::Doubt,
            Answer::Doubt => self.answer = Answer::Refused,
            Answer::Refused | Answer::Content(_) => {}
        }
    }

    /// The modes to apply, if they changed.
    pub fn take_change(&mut self, canary: bool) -> Option<Modes> {
        let wanted = self.wanted(canary);
        let changed = self.in_force != wanted;
        self.in_force = wanted;
        changed.then_some(wanted)
    }

    /// The modes in force, unless `epguard mode` was used since.
    pub const fn in_force(&self) -> Modes {
        self.in_force
    }

    /// Why the `ConfigMap` is not in force, or only in part; in one line. `set` is CONFIG, if it
    /// can be read: `epguard mode` may have changed it.
    pub fn problem(&self, set: Option<&Config>) -> Option<String> {
        let name = self.config_map.as_ref()?.to_string();
        match &self.answer {
            Answer::None | Answer::Doubt => Some(format!(
                "ConfigMap {name} was not read yet; modes until then: {}",
                self.in_force.source
            )),
            Answer::Refused => Some(format!(
                "the API server refuses ConfigMap {name}; modes until it can be read: {}",
                self.in_force.source
            )),
            Answer::Content(None) => None,
            Answer::Content(Some(read)) => {
                let applied = (self.in_force.mode, self.in_force.reasons);
                let is_by_hand = set.is_some_and(|set| (set.mode, set.configured) != applied);
                let error = read.errors.first().map(|error| {
                    format!(
                        "ConfigMap {name}: {error}; only its keys that lower a mode are applied"
                    )
                });
                let by_hand = || format!("a mode was set by hand, until ConfigMap {name} changes");
                error.or_else(|| is_by_hand.then(by_hand))
            }
        }
    }

    fn wanted(&self, canary: bool) -> Modes {
        let lowest = match self.in_force.source {
            ModeSource::Pinned => Modes {
                source: ModeSource::Lower,
                ..self.in_force.lower(self.flags)
            },
            _ => self.in_force,
        };
        let read = match &self.answer {
            Answer::None | Answer::Doubt => return self.in_force,
            Answer::Refused => return lowest,
            Answer::Content(None) => return self.flags,
            Answer::Content(Some(read)) => read,
        };
        let wanted = &read.wanted;
        let asked = |flags: Modes| {
            let (mode, source) = match wanted.canary_mode.filter(|_| canary) {
                Some(mode) => (mode, ModeSource::Canary),
                None => (wanted.mode.unwrap_or(flags.mode), ModeSource::ConfigMap),
            };
            let mut reasons = flags.reasons;
            for (reason, mode) in &wanted.reasons {
                if let Some(own) = reasons.get_mut(*reason) {
                    *own = *mode;
                }
            }
            Modes {
                mode,
                reasons,
                source,
            }
        };
        if read.errors.is_empty() {
            return asked(self.flags);
        }
        let asked = asked(lowest);
        let lowered = lowest.lower(asked);
        let source = if lowered == lowest {
            lowest.source
        } else {
            asked.source
        };
        Modes { source, ..lowered }
    }
}

impl Modes {
    /// The lower of the two modes, for the node and for each reason.
    fn lower(mut self, mut other: Self) -> Self {
        self.mode = self.mode.lower(other.mode);
        for reason in Reason::TO_DENY {
            if let (Some(own), Some(other)) =
                (self.reasons.get_mut(reason), other.reasons.get_mut(reason))
            {
                *own = own.lower(*other);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
