//! The action of each reason on a node: that of its flags, or that of the mode policy. Pure.

use crate::shared::status::{ActionInForce, ActionSource};
use epguard_common::{Action, Config, PerReason, Reason, ReasonActions};
use epguard_core::facts::WantedActions;
use std::collections::BTreeMap;

/// The action of each reason, and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actions {
    /// As CONFIG holds them.
    pub actions: ReasonActions,
    sources: PerReason<ActionSource>,
}

impl Actions {
    /// The actions of the command line.
    pub const fn of_flags(actions: ReasonActions) -> Self {
        Self {
            actions,
            sources: PerReason::all(ActionSource::Flags),
        }
    }

    /// The actions that an earlier agent took from the mode policy.
    pub(super) const fn of_earlier_agent(actions: ReasonActions) -> Self {
        Self {
            actions,
            sources: PerReason::all(ActionSource::Pinned),
        }
    }

    /// True if a mode policy has set one of them: the next agent starts from them.
    pub fn are_of_policy(&self) -> bool {
        let mut reasons = Reason::TO_DENY.into_iter();
        reasons.any(|reason| self.source(reason).is_mode_policy())
    }

    /// These actions, but for what the policy sets: for one reason before that for all, and for
    /// canaries before that for every node.
    pub(super) fn with_policy(self, policy: &WantedActions, is_canary: bool) -> Self {
        let mut actions = self;
        for reason in Reason::TO_DENY {
            if let Some(action) = policy.reasons.get(&reason) {
                actions.set(reason, *action, ActionSource::ModePolicy);
            } else if let Some(action) = policy.canary_action
                && is_canary
            {
                actions.set(reason, action, ActionSource::Canary);
            } else if let Some(action) = policy.action {
                actions.set(reason, action, ActionSource::ModePolicy);
            }
        }
        actions
    }

    /// True if CONFIG has another action where the mode policy sets one.
    pub(super) fn is_overridden(&self, set: &Config) -> bool {
        let mut reasons = Reason::TO_DENY.into_iter();
        reasons.any(|reason| {
            self.source(reason).is_mode_policy()
                && set.actions.get(reason) != self.actions.get(reason)
        })
    }

    /// The action of each reason in CONFIG, with its source.
    pub(super) fn shown(&self, set: &Config) -> BTreeMap<Reason, ActionInForce> {
        let mut shown = BTreeMap::new();
        for reason in Reason::TO_DENY {
            let action = set.actions.get(reason).copied().unwrap_or_default();
            let source = if self.actions.get(reason) == Some(&action) {
                self.source(reason)
            } else {
                ActionSource::Command
            };
            let action = action.or(Action::Drop);
            shown.insert(reason, ActionInForce { action, source });
        }
        shown
    }

    fn source(&self, reason: Reason) -> ActionSource {
        self.sources.get(reason).copied().unwrap_or_default()
    }

    fn set(&mut self, reason: Reason, action: Action, source: ActionSource) {
        if let Some(own) = self.actions.get_mut(reason) {
            *own = action;
        }
        if let Some(own) = self.sources.get_mut(reason) {
            *own = source;
        }
    }
}
