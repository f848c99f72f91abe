//! The modes in force on this node: those of its own flags, or those of the mode policy's `ConfigMap`. Pure.
//!
//! A policy is applied only when it changes. So a mode that an operator sets on one node (`epguard mode`) stays until
//! then.

use crate::shared::status::ModeSource;
use epguard_common::{Mode, Reason, ReasonModes};
use epguard_core::facts::{self, Change, Name, named};

/// The mode policy of this node.
#[derive(Debug)]
pub struct NodeModes {
    flags: Modes,
    /// Namespace and name of the `ConfigMap`, if the flags name one.
    config_map: Option<Name>,
    /// The content that was read last; none if there is no `ConfigMap`.
    read: Option<facts::ModePolicy>,
    /// True once the API has shown the `ConfigMap`, or that none exists.
    known: bool,
    in_force: Modes,
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
    /// The modes before the `ConfigMap` is read. `before` holds the modes that an earlier agent left in the maps.
    #[must_use]
    pub fn new(
        config_map: Option<Name>,
        flags: (Mode, ReasonModes),
        before: Option<(Mode, ReasonModes)>,
    ) -> Self {
        let flags = Modes {
            mode: flags.0,
            reasons: flags.1,
            source: ModeSource::Flags,
        };
        let before = before.filter(|_| config_map.is_some());
        let in_force = before.map_or(flags, |(mode, reasons)| flags.lower(mode, reasons));
        let source = match config_map {
            Some(_) => ModeSource::Lower,
            None => ModeSource::Flags,
        };
        Self {
            flags,
            config_map,
            read: None,
            known: false,
            in_force: Modes { source, ..in_force },
        }
    }

    /// Takes in the content of the `ConfigMap`, or its deletion.
    pub fn apply(&mut self, change: Change<facts::ModePolicy>) {
        self.known = true;
        self.read = match change {
            Change::Reset(all) => all.into_iter().next(),
            Change::Applied(policy) => Some(policy),
            Change::Deleted(_) => None,
        };
    }

    /// The modes to apply, if they changed.
    pub fn take_change(&mut self, canary: bool) -> Option<Modes> {
        let wanted = self.wanted(canary);
        if !self.known || self.in_force == wanted {
            return None;
        }
        self.in_force = wanted;
        Some(wanted)
    }

    /// The modes in force, unless `epguard mode` was used since.
    #[must_use]
    pub const fn in_force(&self) -> Modes {
        self.in_force
    }

    /// Why the `ConfigMap` is not in force, or only in part; in one line.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let name = named(self.config_map.as_ref()?);
        if !self.known {
            return Some(format!(
                "ConfigMap {name} was not read yet, so the lower of the modes in flags and maps applies"
            ));
        }
        let error = self.read.as_ref()?.errors.first()?;
        Some(format!(
            "ConfigMap {name}: {error}; only its keys that lower a mode are applied"
        ))
    }

    fn wanted(&self, canary: bool) -> Modes {
        let Some(read) = &self.read else {
            return self.flags;
        };
        let wanted = &read.wanted;
        let asked = |flags: Modes| {
            let (mode, source) = match wanted.canary_mode.filter(|_| canary) {
                Some(mode) => (mode, ModeSource::Canary),
                None => (wanted.mode.unwrap_or(flags.mode), ModeSource::ConfigMap),
            };
            let mut reasons = flags.reasons;
            for (reason, mode) in &wanted.reasons {
                if let Some(own) = reasons.of(*reason) {
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
        let asked = asked(self.in_force);
        let lowered = self.in_force.lower(asked.mode, asked.reasons);
        let source = if lowered == self.in_force {
            lowered.source
        } else {
            asked.source
        };
        Modes { source, ..lowered }
    }
}

impl Modes {
    /// The lower of the two modes, for the node and for each reason.
    fn lower(mut self, mode: Mode, mut reasons: ReasonModes) -> Self {
        self.mode = self.mode.lower(mode);
        for reason in Reason::TO_DENY {
            if let (Some(own), Some(other)) = (self.reasons.of(reason), reasons.of(reason)) {
                *own = own.lower(*other);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
