//! Names of pods and Services for output; they decide nothing.

use crate::facts::Name;
use crate::state::State;
use epguard_common::{ServiceNumber, Uid};
use std::collections::BTreeMap;

impl State {
    /// Takes over the names of pods that an earlier process knew.
    pub fn know_names(&mut self, names: BTreeMap<Uid, Name>) {
        self.known_names = names;
    }

    /// Namespace and name of a pod that is still known, or that an earlier process knew.
    #[must_use]
    pub fn pod_name(&self, uid: Uid) -> Option<&Name> {
        let name = self.cluster.pods.get(uid).map(|record| &record.pod.name);
        name.filter(|(_, name)| !name.is_empty()).or_else(|| self.known_names.get(&uid))
    }

    /// The Service with this number.
    #[must_use]
    pub fn service_name(&self, number: ServiceNumber) -> Option<&Name> {
        self.layout.numbers.service(number)
    }

    /// A Service's own UID.
    #[must_use]
    pub fn service_uid(&self, name: &Name) -> Option<Uid> {
        self.cluster.service(name).map(|service| service.uid)
    }
}
