//! The modes of a node: those of its flags, with what the mode policy sets. Pure.

use crate::shared::status::ModeSource;
use epguard_common::{Mode, Reason, ReasonModes};
use epguard_core::facts::WantedModes;

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
    pub(super) fn with_policy(self, policy: &WantedModes, is_canary: bool) -> Self {
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
    pub(super) fn lowered_by_policy(self, policy: &WantedModes, is_canary: bool) -> Self {
        let with_policy = self.with_policy(policy, is_canary);
        let mut lowered = self.lower(with_policy);
        if lowered != self {
            lowered.source = with_policy.source;
        }
        lowered
    }

    /// The lower of the two modes, for the node and for each reason. The source stays.
    pub(super) fn lower(mut self, mut other: Self) -> Self {
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
