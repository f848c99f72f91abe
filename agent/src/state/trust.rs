//! What is held, which lists would settle it, and how to trust it by hand.

use super::{Kind, Socket, State, Trip};
use crate::facts::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl State {
    /// Whether a denial is only reported, until a second list agrees.
    #[must_use]
    pub fn is_held(&self, service: &Name, socket: &Socket) -> bool {
        self.breaker.holds(service, socket)
    }

    /// The lists that the state waits for.
    #[must_use]
    pub fn wanted_lists(&self) -> BTreeSet<Kind> {
        let mut wanted = self.breaker.wanted_lists();
        wanted.extend(self.wanted_for_vacancies());
        wanted
    }

    /// The lists to ask for now: each once, a moment after it is first wanted, and again if it doesn't come.
    pub fn take_wanted_lists(&mut self, now: Duration) -> BTreeSet<Kind> {
        let wanted = self.wanted_lists();
        self.breaker.take_due(now, wanted)
    }

    /// Services with denials that are held.
    #[must_use]
    pub fn trips(&self, now: Duration) -> BTreeMap<&Name, Trip> {
        self.breaker.trips(&self.world, now)
    }

    /// Trusts what is held for a Service, or all of it, without another list. How many denials that were.
    pub fn release_breaker(&mut self, service: Option<&Name>) -> usize {
        let released = self.breaker.release(service);
        self.lay_out();
        released
    }

    fn wanted_for_vacancies(&self) -> &'static [Kind] {
        if self.is_synced() && self.vacancies.wait_for_a_list(&self.world) {
            Kind::pods(self.world.settings.scope)
        } else {
            &[]
        }
    }
}
