//! Most that may be done about somebody: what annotations ask for, Namespaces' included.
//!
//! The most cautious of all who are concerned decides, and a Namespace that was not seen (yet, or any more) may have asked
//! to be spared.

use super::World;
use crate::facts::{Change, Namespace, Pod, Service};
use epguard_common::Mode;
use std::collections::{BTreeSet, HashMap};

/// The bounds of all Namespaces.
#[derive(Debug, Clone, Default)]
pub struct Namespaces(HashMap<String, Mode>);

impl Namespaces {
    /// Takes in what the watch says; the names of those whose bound changed.
    pub fn apply(&mut self, change: Change<Namespace>) -> BTreeSet<String> {
        match change {
            Change::Applied(Namespace { name, bound }) => match self.0.insert(name.clone(), bound) {
                Some(before) if before == bound => BTreeSet::new(),
                _ => BTreeSet::from([name]),
            },
            Change::Deleted(Namespace { name, .. }) => {
                self.0.remove(&name);
                BTreeSet::from([name])
            }
            Change::Reset(all) => {
                let after = all
                    .into_iter()
                    .map(|Namespace { name, bound }| (name, bound))
                    .collect();
                let before = std::mem::replace(&mut self.0, after);
                let names = before.keys().chain(self.0.keys());
                names
                    .filter(|name| before.get(*name) != self.0.get(*name))
                    .cloned()
                    .collect()
            }
        }
    }

    fn bound(&self, name: &str) -> Mode {
        self.0.get(name).copied().unwrap_or(Mode::Observe)
    }
}

impl World {
    /// Most that may be done about packets that are meant for a pod, or would reach it. Of one that only an earlier process
    /// saw, nothing but the bound is known.
    #[must_use]
    pub fn bound_of_pod(&self, pod: &Pod) -> Mode {
        let inherited = pod.name.0.is_empty();
        if inherited {
            return pod.bound;
        }
        pod.bound.lower(self.namespaces.bound(&pod.name.0))
    }

    /// Most that may be done about packets to a Service.
    #[must_use]
    pub fn bound_of_service(&self, service: &Service) -> Mode {
        service.bound.lower(self.namespaces.bound(&service.name.0))
    }
}
