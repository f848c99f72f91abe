//! Narrow lists, applied beside the watches.

use super::endpoints::EndpointIndex;
use super::endpoints::touched::Touched;
use super::pods::{PodIndex, Record};
use crate::facts::{Name, Part, Pod, Slice};
use epguard_common::Uid;
use std::collections::HashSet;
use std::time::Duration;

impl PodIndex {
    /// Begins to apply a list of some pods. Returns those that it lacks.
    pub fn begin_part(&mut self, part: &Part<Pod>) -> Vec<Uid> {
        let Part { selection, objects, later, .. } = part;
        let listed: HashSet<Uid> = objects.iter().map(|pod| pod.uid).collect();
        self.order += 1;
        let gone = self.selected(selection).map(|record| &record.pod);
        let gone = gone.filter(|pod| !listed.contains(&pod.uid) && !later.contains(&pod.name));
        gone.map(|pod| pod.uid).collect()
    }

    /// Applies a pod of such a list. It shows no order of claims either, but only a claim that the watch lacked makes the
    /// known order doubtful.
    pub fn list_in_part(&mut self, now: Duration, pod: Pod) -> (Uid, Option<Record>) {
        let uid = pod.uid;
        let known = self.get(uid);
        let doubtful = known.is_some_and(|known| known.unconfirmed || known.narrowly);
        let touched = self.list(now, pod).unwrap_or((uid, None));
        self.change(uid, |record| record.narrowly = doubtful && !record.unconfirmed);
        let claims = self.get(uid).into_iter().flat_map(|record| record.claims.iter());
        if claims.into_iter().any(|(_, claim)| claim.order == self.order) {
            self.level_claims();
        }
        touched
    }
}

impl EndpointIndex {
    /// Applies a list of some slices.
    pub fn apply_part(&mut self, now: Duration, part: Part<Slice>) -> Touched {
        let Part { selection, objects, later, .. } = part;
        let listed: HashSet<Name> = objects.iter().map(|slice| slice.name.clone()).collect();
        let stays = |name| later.contains(name) || listed.contains(name);
        let known = self.slices.values().filter(|slice| selection.has_slice(slice));
        let names = known.map(|slice| &slice.name).filter(|name| !stays(name));
        let gone: Vec<Name> = names.cloned().collect();
        let mut touched = Touched::default();
        for slice in objects {
            touched.extend(self.show(now, slice));
        }
        for name in gone {
            touched.extend(self.delete(now, &name));
        }
        touched
    }
}
