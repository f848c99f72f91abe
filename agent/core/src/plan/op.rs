//! One write to a map.

use crate::state::{Changes, OrphanIp, Tables};
use epguard_common::{Addr, Backends, Denial, DenialKey, Owner, ServiceNumber, Suspect, Vip};

/// One write to a map.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the maps")]
pub enum Op {
    RemoveDenial(DenialKey),
    RemoveSuspect(Addr),
    RemoveService(Vip),
    PutDenial(DenialKey, Denial),
    PutService(Vip, ServiceNumber),
    PutSuspect(Addr, Suspect),
    RemoveOwner(Addr),
    PutOwner(Addr, Owner),
    RemoveTerminated(Addr),
    PutTerminated(Addr, OrphanIp),
    RemoveBackends(DenialKey),
    PutBackends(DenialKey, Box<Backends>),
}

impl Op {
    /// The write that takes out what this one puts in; none for a removal.
    #[must_use]
    pub const fn removal(&self) -> Option<Self> {
        Some(match self {
            Self::PutDenial(key, _) => Self::RemoveDenial(*key),
            Self::PutService(key, _) => Self::RemoveService(*key),
            Self::PutSuspect(key, _) => Self::RemoveSuspect(*key),
            Self::PutOwner(key, _) => Self::RemoveOwner(*key),
            Self::PutTerminated(key, _) => Self::RemoveTerminated(*key),
            Self::PutBackends(key, _) => Self::RemoveBackends(*key),
            Self::RemoveDenial(_)
            | Self::RemoveSuspect(_)
            | Self::RemoveService(_)
            | Self::RemoveOwner(_)
            | Self::RemoveTerminated(_)
            | Self::RemoveBackends(_) => return None,
        })
    }

    /// Applies the write to the tables that are known to be installed.
    pub fn apply(&self, installed: &mut Tables) {
        match self {
            Self::PutDenial(key, value) => drop(installed.denied.insert(*key, *value)),
            Self::PutService(key, value) => drop(installed.services.insert(*key, *value)),
            Self::PutSuspect(key, value) => drop(installed.suspects.insert(*key, *value)),
            Self::PutTerminated(key, value) => drop(installed.terminated.insert(*key, *value)),
            Self::PutBackends(key, value) => drop(installed.backends.insert(*key, **value)),
            Self::RemoveDenial(key) => drop(installed.denied.remove(key)),
            Self::RemoveService(key) => drop(installed.services.remove(key)),
            Self::RemoveSuspect(key) => drop(installed.suspects.remove(key)),
            Self::RemoveTerminated(key) => drop(installed.terminated.remove(key)),
            Self::RemoveBackends(key) => drop(installed.backends.remove(key)),
            Self::PutOwner(..) | Self::RemoveOwner(_) => {}
        }
    }

    /// True if the tables have an entry of this key.
    #[must_use]
    pub fn is_installed(&self, installed: &Tables) -> bool {
        match self {
            Self::PutDenial(key, _) | Self::RemoveDenial(key) => installed.denied.contains_key(key),
            Self::PutService(key, _) | Self::RemoveService(key) => installed.services.contains_key(key),
            Self::PutSuspect(key, _) | Self::RemoveSuspect(key) => installed.suspects.contains_key(key),
            Self::PutTerminated(key, _) | Self::RemoveTerminated(key) => {
                installed.terminated.contains_key(key)
            }
            Self::PutBackends(key, _) | Self::RemoveBackends(key) => installed.backends.contains_key(key),
            Self::PutOwner(..) | Self::RemoveOwner(_) => false,
        }
    }

    /// Adds its key to those that may have changed.
    pub fn note(&self, changes: &mut Changes) {
        match self {
            Self::PutDenial(key, _)
            | Self::RemoveDenial(key)
            | Self::PutBackends(key, _)
            | Self::RemoveBackends(key) => drop(changes.denied.insert(*key)),
            Self::PutService(key, _) | Self::RemoveService(key) => drop(changes.services.insert(*key)),
            Self::PutSuspect(key, _) | Self::RemoveSuspect(key) => drop(changes.suspects.insert(*key)),
            Self::PutOwner(..)
            | Self::RemoveOwner(_)
            | Self::PutTerminated(..)
            | Self::RemoveTerminated(_) => {}
        }
    }

    /// True for a write to BACKENDS.
    #[must_use]
    pub const fn is_of_backends(&self) -> bool {
        matches!(self, Self::PutBackends(..) | Self::RemoveBackends(_))
    }
}
