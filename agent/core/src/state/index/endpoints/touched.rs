//! What a change of slices touches.

use super::Target;
use crate::facts::Name;
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;

/// The entries that a change of slices touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// (Service, IP) pairs.
    pub pairs: BTreeSet<(Name, Addr)>,
    /// Pods that are named there, or were until now.
    pub places: BTreeSet<(Uid, Addr, Name)>,
}

impl Touched {
    pub(in crate::state) fn add(&mut self, service: &Name, ip: Addr, target: Target) {
        self.pairs.insert((service.clone(), ip));
        self.places.extend(target.map(|uid| (uid, ip, service.clone())));
    }

    pub(in crate::state) fn extend(&mut self, other: Self) {
        self.pairs.extend(other.pairs);
        self.places.extend(other.places);
    }
}
