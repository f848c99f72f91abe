//! The modes and actions in force on this node: those of its own flags, or those of the mode
//! policy, which is a `ConfigMap`. Pure.
//!
//! An agent that starts keeps what an earlier one took from the `ConfigMap`, or each restart would
//! be a gap. The modes of a policy are applied only when they change, and so are its actions. So a
//! mode or an action that an operator sets on one node (`epguard mode`, `epguard action`) stays
//! until then. A release of the breaker is applied once.

mod actions;
mod modes;

pub use actions::Actions;
pub use modes::Modes;

use crate::shared::status::{ActionInForce, ModeSource};
use epguard_common::{Config, Reason};
use epguard_core::facts::{BreakerRelease, Change, ModePolicy, ObjectName, Part};
use std::collections::BTreeMap;

/// The mode policy, as it is applied on this node.
#[derive(Debug)]
pub struct NodeModePolicy {
    flags: Modes,
    flag_actions: Actions,
    /// Namespace and name of the `ConfigMap`, if the flags name one.
    config_map: Option<ObjectName>,
    answer: PolicyAnswer,
    in_force: Modes,
    actions: Actions,
    /// The release that was carried out last, while the `ConfigMap` has it.
    released: Option<BreakerRelease>,
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

impl NodeModePolicy {
    /// What is in force before the `ConfigMap` is read. `pinned` is CONFIG as an earlier agent left
    /// it, all-zero if there was none, and shows whether it took its modes from the `ConfigMap`; if
    /// not, the lower ones count, for an operator may have lowered either. Actions that it took
    /// from there stay, too; others are those of the flags.
    pub fn new(
        config_map: Option<ObjectName>,
        flags: Modes,
        flag_actions: Actions,
        pinned: &Config,
    ) -> Self {
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
        let actions = if config_map.is_some() && pinned.actions_from_config_map != 0 {
            Actions::of_earlier_agent(pinned.actions)
        } else {
            flag_actions
        };
        Self {
            flags,
            flag_actions,
            config_map,
            answer: PolicyAnswer::None,
            in_force,
            actions,
            released: None,
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

    /// The actions to apply, if they changed. A policy with an error changes none.
    pub fn take_actions(&mut self, canary: bool) -> Option<Actions> {
        let wanted = match &self.answer {
            PolicyAnswer::Content(None) => self.flag_actions,
            PolicyAnswer::Content(Some(policy)) if policy.errors.is_empty() => {
                self.flag_actions.with_policy(&policy.actions, canary)
            }
            _ => self.actions,
        };
        let changed = self.actions != wanted;
        self.actions = wanted;
        changed.then_some(wanted)
    }

    /// The release of stopped denials to carry out, once for each that the policy has. A policy with
    /// an error releases nothing.
    pub fn take_release(&mut self) -> Option<BreakerRelease> {
        let wanted = match &self.answer {
            PolicyAnswer::Content(None) => None,
            PolicyAnswer::Content(Some(policy)) if policy.errors.is_empty() => {
                policy.release.clone()
            }
            _ => return None,
        };
        if self.released == wanted {
            return None;
        }
        self.released.clone_from(&wanted);
        wanted
    }

    /// The modes in force, unless `epguard mode` was used since.
    pub const fn in_force(&self) -> Modes {
        self.in_force
    }

    /// The actions in force, unless `epguard action` was used since.
    pub const fn actions(&self) -> Actions {
        self.actions
    }

    /// The action of each reason by CONFIG, with its source.
    pub fn actions_in_force(&self, set: &Config) -> BTreeMap<Reason, ActionInForce> {
        self.actions.shown(set)
    }

    /// Why the `ConfigMap` is not in force, or only in part; in one line. `set` is CONFIG, if it
    /// can be read: `epguard mode` and `epguard action` may have changed it.
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
                if set.is_some_and(|set| self.actions.is_overridden(set)) {
                    return Some(format!(
                        "an action was set by hand, until ConfigMap {name} changes"
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
                self.flags.with_policy(&policy.modes, is_canary)
            }
            PolicyAnswer::Content(Some(policy)) => {
                self.lowest().lowered_by_policy(&policy.modes, is_canary)
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

#[cfg(test)]
mod tests;
