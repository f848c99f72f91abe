//! The names of ports, as slices give them now.

use super::slice_part::SlicePart;
use super::{EndpointIndex, Port};
use crate::facts::Slice;

impl EndpointIndex {
    /// Takes the names of ports from the slice where no other one lists the same: what it called them before does not count.
    pub(super) fn rename_ports(&mut self, slice: &Slice) {
        let Some(part) = SlicePart::whole(slice) else {
            return;
        };
        let Some(endpoints) = self.services.get_mut(part.service) else {
            return;
        };
        for (endpoint, shown, port) in part.named() {
            if let Some(listing) =
                endpoints.get_mut(&endpoint, shown.target).filter(|listing| listing.slices == 1)
            {
                listing.port = Port::Named(port.name);
            }
        }
    }
}
