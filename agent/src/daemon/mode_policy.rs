//! The modes in force on this node: those of its own flags, or those of the mode policy, which is a
//! `ConfigMap`. Pure.
//!
//! An agent that starts keeps what an earlier one took from the `ConfigMap`, or each restart would
//! be a gap. A policy is applied only when it changes. So a mode that an operator sets on one node
//! (`epguard mode`) stays until then.

use crate::shared::status::ModeSource;
use epguard_common::{Config, Mode, Reason, ReasonModes};
use epguard_core::facts::{Change, ModePolicy, ObjectName, Part, WantedModes};

/// The mode policy, as it is applied on this node.
#[derive(Debug)]
pub struct NodeModePolicy {
    flags: Modes,
    /// Namespace and name of the `ConfigMap`, if the flags name one.
    config_map: Option<ObjectName>,
    answer: PolicyAnswer,
    in_force: Modes,
}

/// What the API says of the `ConfigMap`.
#[derive(Debug)]
enum PolicyAnswer {
    /// Nothing yet.
    None,
    /// This agent was refused it once: a server that has just started may not know the roles yet.
    Doubt,
    /// This agent may not read it.
    Refused,
    /// Its content; none if there is no `ConfigMap`.
    Content(Option<ModePolicy>),
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

impl NodeModePolicy {
    /// The modes before the `ConfigMap` is read. `pinned` is CONFIG as an earlier agent left it,
    /// all-zero if there was none, and shows whether it took its modes from the `ConfigMap`; if
    /// not, the lower ones count, for an operator may have lowered either.
    pub fn new(config_map: Option<ObjectName>, flags: Modes, pinned: &Config) -> Self {
        let earlier = Modes {
            mode: pinned.mode,
            reasons: pinned.configured,
            source: ModeSource::Pinned,
        };
        let in_force = if config_map.is_none() || *pinned == Config::default() {
            flags
        } else if pinned.from_config_map != 0 {
            earlier
        } else {
            flags.lower(earlier)
        };
        Self {
            flags,
            config_map,
            answer: PolicyAnswer::None,
            in_force,
        }
    }

    /// Takes in the content of the `ConfigMap`, or its deletion.
    pub fn apply(&mut self, change: Change<ModePolicy>) {
        let content = match change {
            Change::Reset(all) | Change::Part(Part { objects: all, .. }) => all.into_iter().next(),
            Change::Applied(policy) => Some(policy),
            Change::Deleted(_) | Change::Gone(_) => None,
        };
        self.answer = PolicyAnswer::Content(content);
    }

    /// The API server does not let this agent read the `ConfigMap`. What was read before stays.
    pub fn refuse(&mut self) {
        match self.answer {
            PolicyAnswer::None => self.answer = PolicyAnswer::Doubt,
            PolicyAnswer::Doubt => self.answer = PolicyAnswer::Refused,
            PolicyAnswer::Refused | PolicyAnswer::Content(_) => {}
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
        let name = self.config_map.as_ref()?;
        let source = self.in_force.source;
        match &self.answer {
            PolicyAnswer::None | PolicyAnswer::Doubt => Some(format!(
                "ConfigMap {name} was not read yet; modes until then: {source}"
            )),
            PolicyAnswer::Refused => Some(format!(
                "the API server refuses ConfigMap {name}; modes until it can be read: {source}"
            )),
            PolicyAnswer::Content(None) => None,
            PolicyAnswer::Content(Some(policy)) => {
                if let Some(error) = policy.errors.first() {
                    return Some(format!(
                        "ConfigMap {name}: {error}; only its keys that lower a mode are applied"
                    ));
                }
                let Modes { mode, reasons, .. } = self.in_force;
                if set.is_some_and(|set| set.mode != mode || set.configured != reasons) {
                    return Some(format!(
                        "a mode was set by hand, until ConfigMap {name} changes"
                    ));
                }
                None
            }
        }
    }

    /// The modes that should be in force now.
    fn wanted(&self, is_canary: bool) -> Modes {
        match &self.answer {
            PolicyAnswer::None | PolicyAnswer::Doubt => self.in_force,
            PolicyAnswer::Refused => self.lowest(),
            PolicyAnswer::Content(None) => self.flags,
            PolicyAnswer::Content(Some(policy)) if policy.errors.is_empty() => {
                self.flags.with_policy(&policy.wanted, is_canary)
            }
            PolicyAnswer::Content(Some(policy)) => {
                self.lowest().lowered_by_policy(&policy.wanted, is_canary)
            }
        }
    }

    /// The modes if the policy cannot be read: those that an earlier agent took from it may not be
    /// above the flags.
    fn lowest(&self) -> Modes {
        if self.in_force.source != ModeSource::Pinned {
            return self.in_force;
        }
        let mut lowest = self.in_force.lower(self.flags);
        lowest.source = ModeSource::Lower;
        lowest
    }
}

impl Modes {
    /// The modes of the command line.
    pub const fn of_flags(mode: Mode, reasons: ReasonModes) -> Self {
        Self {
            mode,
            reasons,
            source: ModeSource::Flags,
        }
    }

    /// These modes, but for what the policy sets.
    fn with_policy(self, policy: &WantedModes, is_canary: bool) -> Self {
        let mut modes = self;
        modes.source = ModeSource::ModePolicy;
        if let Some(mode) = policy.mode {
            modes.mode = mode;
        }
        if is_canary && let Some(mode) = policy.canary_mode {
            modes.mode = mode;
            modes.source = ModeSource::Canary;
        }
        for (reason, mode) in &policy.reasons {
            if let Some(highest) = modes.reasons.get_mut(*reason) {
                *highest = *mode;
            }
        }
        modes
    }

    /// These modes, but for those that the policy lowers.
    fn lowered_by_policy(self, policy: &WantedModes, is_canary: bool) -> Self {
        let with_policy = self.with_policy(policy, is_canary);
        let mut lowered = self.lower(with_policy);
        if lowered != self {
            lowered.source = with_policy.source;
        }
        lowered
    }

    /// The lower of the two modes, for the node and for each reason. The source stays.
    fn lower(mut self, mut other: Self) -> Self {
        self.mode = self.mode.lower(other.mode);
        for reason in Reason::TO_DENY {
            if let Some(mode) = self.reasons.get_mut(reason)
                && let Some(other) = other.reasons.get_mut(reason)
            {
                *mode = mode.lower(*other);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
