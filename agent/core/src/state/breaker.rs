//! Distrust of a sudden mass: what one list alone would deny, and what goes beyond half of a Service's endpoints, is
//! held: reported, never carried out, until a second consistent list agrees.
//!
//! ```text
//! denials -> new ones: carried out, or held -> a later list: agrees (carried out), or disagrees (forgotten)
//! ```

use super::hold::{Hold, Known, Why, is_plain, rests_on_one_list};
use super::{Denials, Proven, Socket, World};
use crate::bucket::Bucket;
use crate::facts::{Name, Watched};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Lists are asked for this long after they are first wanted: a mass comes in pieces, and a slice that follows
/// the pod's end by a moment settles the matter without one.
pub const DELAY: Duration = Duration::from_millis(500);

/// A list that was asked for and has not come is asked for again after this time.
pub const RETRY: Duration = Duration::from_secs(30);

/// Lists that one namespace's Services may ask for at once; each is one of every agent. What they hold beyond waits for the
/// next list that comes anyway.
const LISTS: u32 = 8;

/// After this time a namespace may ask for another one.
const LIST_EVERY: Duration = Duration::from_mins(2);

/// All denials, as far as they are trusted.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    known: BTreeMap<Name, BTreeMap<Socket, Known>>,
    /// What an earlier process carried out: no list proves it newly.
    inherited: BTreeSet<(Addr, Uid)>,
    /// When to ask for a list next.
    due: BTreeMap<Watched, Duration>,
    /// What namespaces may still ask for.
    asked: BTreeMap<String, Bucket>,
}

/// A Service with denials that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trip {
    /// Endpoints (IPs) with a denial that is held.
    pub held: usize,
    /// All endpoints (IPs) with a denial.
    pub denied: usize,
    /// Endpoints (IPs) that were ready at any time in the last 5 minutes.
    pub ready_recently: usize,
    /// Since when at least one has been held.
    pub since: Duration,
    /// What is distrusted; the half, if both.
    pub why: Why,
}

impl Trip {
    /// Whether it is about more than half of the Service, at least two: worth an alarm. Anything less is every
    /// restart's and every gap's daily business.
    #[must_use]
    pub fn is_a_mass(&self) -> bool {
        self.why == Why::Half || self.denied > allowance(self.ready_recently)
    }
}

impl Breaker {
    /// What an earlier process carried out at these IPs is not new.
    pub fn inherit(&mut self, denied: impl IntoIterator<Item = (Addr, Uid)>) {
        self.inherited.extend(denied);
    }

    /// The first list is over: from now on everything new is new.
    pub fn forget_inherited(&mut self) {
        self.inherited.clear();
    }

    /// Looks at the denials of a Service; `list` is what was just listed in whole, if the news is a list. True if
    /// something is held that wasn't, or the other way round.
    pub fn settle(
        &mut self,
        world: &World,
        now: Duration,
        denials: &Denials,
        service: &Name,
        list: Option<Watched>,
    ) -> bool {
        let proven: BTreeMap<&Socket, &Proven> = of(denials, service).collect();
        let mut known = self.known.remove(service).unwrap_or_default();
        if proven.is_empty() && known.is_empty() {
            return false;
        }
        let before = held(&known);
        known.retain(|socket, known| known.hear(list, proven.get(socket).copied()));
        for (socket, known) in &mut known {
            let plain = |proven: &&Proven| is_plain(world, service, socket, proven);
            let settled = proven.get(socket).is_some_and(plain);
            known.hold.take_if(|hold| hold.why == Why::Half && settled);
        }
        let new = proven
            .into_iter()
            .filter(|(socket, proven)| known.get(socket).is_none_or(|known| known.is_outgrown_by(proven)));
        let new: Vec<(&Socket, &Proven)> = new.collect();
        if !new.is_empty() {
            let mut room = Room::new(world, now, service, &known, denials);
            for (socket, proven) in new {
                let distrusted = if self.is_news_of_one_list(world, list, socket.ip, proven) {
                    Some(Why::OneList)
                } else {
                    let fits = is_plain(world, service, socket, proven) || room.take(socket.ip);
                    (!fits).then_some(Why::Half)
                };
                let hold = distrusted.map(|why| Hold::new(world, now, why, list, (service, socket)));
                known.insert(*socket, Known::new(proven, hold));
            }
        }
        let changed = before != held(&known);
        if !known.is_empty() {
            self.known.insert(service.clone(), known);
        }
        changed
    }

    /// Services with denials.
    pub fn services(&self) -> impl Iterator<Item = &Name> {
        self.known.keys()
    }

    /// Whether a denial is only reported.
    #[must_use]
    pub fn holds(&self, service: &Name, socket: &Socket) -> bool {
        let known = self.known.get(service).and_then(|known| known.get(socket));
        known.is_some_and(|known| known.proven && known.hold.is_some())
    }

    /// The lists that would settle what is held.
    #[must_use]
    pub fn wanted_lists(&self) -> BTreeSet<Watched> {
        let all = self.known.values().flat_map(BTreeMap::values);
        let holds = all
            .filter(|known| known.proven)
            .filter_map(|known| known.hold.as_ref());
        holds.flat_map(|hold| hold.waits.iter().copied()).collect()
    }

    /// Which of the wanted lists to ask for now: each once, `DELAY` after it was first wanted, and again if it hasn't
    /// come for `RETRY`. `others` are wanted for other reasons too; for what is held, a namespace asks for a few.
    pub fn take_due(
        &mut self,
        now: Duration,
        mut wanted: BTreeSet<Watched>,
        others: &[Watched],
    ) -> BTreeSet<Watched> {
        self.due.retain(|kind, _| wanted.contains(kind));
        self.asked.retain(|_, bucket| !bucket.is_full(now));
        wanted.retain(|kind| {
            let due = self.due.entry(*kind).or_insert(now + DELAY);
            let is_due = *due <= now;
            if is_due {
                *due = now + RETRY;
            }
            is_due && (others.contains(kind) || self.may_ask(*kind, now))
        });
        wanted
    }

    /// Takes the list from the namespaces that wait for it; false if none may ask for another one.
    fn may_ask(&mut self, kind: Watched, now: Duration) -> bool {
        let waits = |known: &Known| {
            let hold = known.hold.as_ref().filter(|_| known.proven);
            hold.is_some_and(|hold| hold.waits.contains(&kind))
        };
        let waiting = self.known.iter().filter(|(_, known)| known.values().any(waits));
        let namespaces: BTreeSet<&String> = waiting.map(|(service, _)| &service.0).collect();
        let mut may_ask = false;
        for namespace in namespaces {
            let bucket = self.asked.entry(namespace.clone());
            may_ask |= bucket.or_insert_with(|| Bucket::new(LIST_EVERY, LISTS)).take(now);
        }
        may_ask
    }

    /// A list has come: the next one is another matter.
    pub fn listed(&mut self, kind: Watched) {
        self.due.remove(&kind);
    }

    /// Services with denials that are held now.
    #[must_use]
    pub fn trips(&self, world: &World, now: Duration) -> BTreeMap<&Name, Trip> {
        let tripped = self.known.iter().filter_map(|(service, known)| {
            let proven = || known.iter().filter(|(_, known)| known.proven);
            let holds: Vec<(Addr, &Hold)> = proven()
                .filter_map(|(socket, known)| Some((socket.ip, known.hold.as_ref()?)))
                .collect();
            let trip = Trip {
                held: distinct(holds.iter().map(|(ip, _)| *ip)),
                denied: distinct(proven().map(|(socket, _)| socket.ip)),
                ready_recently: world.listings.recently_ready(now, service).len(),
                since: holds.iter().map(|(_, hold)| hold.since).min()?,
                why: holds.iter().map(|(_, hold)| hold.why).max()?,
            };
            Some((service, trip))
        });
        tripped.collect()
    }

    /// Trusts what is held for a Service, or all of it; the number of denials that are carried out from now on.
    pub fn release(&mut self, service: Option<&Name>) -> usize {
        let chosen = self
            .known
            .iter_mut()
            .filter(|(name, _)| service.is_none_or(|service| service == *name));
        let known = chosen.flat_map(|(_, known)| known.values_mut());
        known.filter_map(|known| known.hold.take()).count()
    }

    fn is_news_of_one_list(&self, world: &World, list: Option<Watched>, ip: Addr, proven: &Proven) -> bool {
        let inherited = self.inherited.contains(&(ip, proven.meant));
        !inherited && (list.is_some() || rests_on_one_list(world, proven))
    }
}

/// How many more endpoints of a Service may be denied without a second list.
struct Room {
    ready: BTreeSet<Addr>,
    denied: BTreeSet<Addr>,
}

impl Room {
    fn new(
        world: &World,
        now: Duration,
        service: &Name,
        known: &BTreeMap<Socket, Known>,
        denials: &Denials,
    ) -> Self {
        let ready = world.listings.recently_ready(now, service);
        let carried_out = of(denials, service).filter(|(socket, proven)| {
            let trusted = known.get(socket).is_some_and(|known| known.hold.is_none());
            trusted && !is_plain(world, service, socket, proven)
        });
        let ips = carried_out.map(|(socket, _)| socket.ip);
        let denied = ips.filter(|ip| ready.contains(ip)).collect();
        Self { ready, denied }
    }

    /// Whether an endpoint may be denied; then it takes its place. What was not ready not long ago takes none.
    fn take(&mut self, ip: Addr) -> bool {
        if !self.ready.contains(&ip) || self.denied.contains(&ip) {
            return true;
        }
        let fits = self.denied.len() < allowance(self.ready.len());
        if fits {
            self.denied.insert(ip);
        }
        fits
    }
}

/// Half of the endpoints, at least one.
fn allowance(ready: usize) -> usize {
    (ready / 2).max(1)
}

fn of<'a>(denials: &'a Denials, service: &Name) -> impl Iterator<Item = (&'a Socket, &'a Proven)> {
    let (first, last) = Socket::range();
    let denials = denials.range((service.clone(), first)..=(service.clone(), last));
    denials.map(|((_, socket), proven)| (socket, proven))
}

fn held(known: &BTreeMap<Socket, Known>) -> Vec<Socket> {
    let held = known
        .iter()
        .filter(|(_, known)| known.proven && known.hold.is_some());
    held.map(|(socket, _)| *socket).collect()
}

fn distinct(ips: impl Iterator<Item = Addr>) -> usize {
    ips.collect::<BTreeSet<_>>().len()
}
