//! Narrow lists of slices.

use super::EndpointIndex;
use super::endpoint_index::Touched;
use crate::facts::{Change, Part, Slice};
use std::time::Duration;

impl EndpointIndex {
    /// Applies a narrow list beside the watch: the slices of one Service.
    pub fn apply_part(&mut self, now: Duration, part: Part<Slice>) -> Touched {
        let Part {
            selection,
            objects,
            later,
        } = part;
        let stays = |name| later.contains(name) || objects.iter().any(|slice| slice.name == *name);
        let known = self.slices.values().filter(|slice| selection.has_slice(slice));
        let gone = known.filter(|slice| !stays(&slice.name)).cloned();
        let gone: Vec<Change<Slice>> = gone.map(Change::Deleted).collect();
        let mut touched = Touched::default();
        for change in objects.into_iter().map(Change::Applied).chain(gone) {
            let Touched { pairs, pods } = self.apply(now, change);
            touched.pairs.extend(pairs);
            touched.pods.extend(pods);
        }
        touched
    }
}
