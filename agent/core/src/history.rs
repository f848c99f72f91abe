//! Past pods and denials of each IP, for `epguard why`: a ring of `MAX_STEPS` views per IP,
//! `BUDGET` octets in all. The IP whose last step is the oldest makes room.
//!
//! ```text
//! State (IPs that a fact touched, their views) -> History::record -> ring of steps
//!   -> Chronicle -> `epguard why`
//! ```

use crate::state::{State, View, report};
use epguard_common::Addr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Steps kept per IP; the oldest go first.
const MAX_STEPS: usize = 64;

/// Octets for all IPs.
const BUDGET: usize = 8 * 1024 * 1024;

/// Work that is done at once, in endpoints of changed IPs: a millisecond or two.
const AT_ONCE: usize = 128;

/// If more changed IPs wait than that, or a list came, quiet IPs without a history are left out:
/// they would only push out the others.
const MASS: usize = 4096;

/// Octets of an entry of both indexes, and of the place of a step.
const ENTRY: usize = 128;
const STEP: usize = 96;

/// The history of all IPs.
#[derive(Debug, Clone, Default)]
pub struct History {
    ips: HashMap<Addr, Ring>,
    /// IPs by the time of their last step, ms.
    order: BTreeSet<(u64, Addr)>,
    octets: usize,
    /// True if an IP had to make room, or got none.
    forgot: bool,
    /// When the first whole list was known.
    began: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
struct Ring {
    steps: VecDeque<Kept>,
    truncated: bool,
}

/// A [`Step`] with its view as JSON: in fewer octets, and their number is known.
#[derive(Debug, Clone)]
struct Kept {
    at_ms: u64,
    rv: u64,
    view: Box<str>,
}

/// The history of an IP, with the clocks to read it by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Chronicle {
    /// The IP.
    pub ip: IpAddr,
    /// Changes, the oldest first; empty if there were none since the history began.
    pub steps: Vec<Step>,
    /// The current view.
    pub view: View,
    /// When the first whole list was known, ms; its objects may be older.
    pub began_ms: u64,
    /// When the history was requested, ms of `CLOCK_BOOTTIME`: the clock of the steps.
    pub now_ms: u64,
    /// The same moment in ms since 1970, by the node's clock.
    pub wall_ms: i64,
    /// True if earlier steps were dropped to make room.
    pub truncated: bool,
    /// The node's mode now, `off`, `observe` or `enforce`, and whether its lease is over.
    pub mode: String,
}

/// What the agent knew about an IP from a moment on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// When the agent had processed the change, ms of `CLOCK_BOOTTIME`.
    pub at_ms: u64,
    /// The newest resourceVersion that the agent had seen.
    pub rv: u64,
    /// The view from then on.
    pub view: View,
}

impl Chronicle {
    /// Since when the IP's history is known, ms of `CLOCK_BOOTTIME`.
    pub fn since_ms(&self) -> u64 {
        match self.steps.first() {
            Some(first) if self.truncated => first.at_ms,
            None if self.truncated => self.now_ms,
            _ => self.began_ms,
        }
    }
}

impl History {
    /// True if changes are to be stored: before further ones, or their steps become one.
    pub fn lacks(&self, state: &State) -> bool {
        (state.is_synced() || self.began.is_some()) && state.has_ips_to_record()
    }

    /// Stores what has changed since the last call, for some IPs; the next calls store the rest.
    /// Does nothing until every watch has listed once.
    pub fn record(&mut self, now: Duration, rv: u64, state: &mut State) {
        if !state.is_synced() && self.began.is_none() {
            return;
        }
        self.began.get_or_insert(now);
        let mut work = 0;
        while work < AT_ONCE && state.has_ips_to_record() {
            work += 1;
            let (touched, mass) = state.take_ips_to_record(1, MASS);
            for ip in touched {
                if mass && !self.ips.contains_key(&ip) && report::is_quiet(state, ip) {
                    self.forgot = true;
                    continue;
                }
                let (view, of_view) = report::view_for_history(state, ip);
                work += of_view;
                self.step(now, rv, ip, &view);
                self.make_room(BUDGET);
            }
        }
    }

    /// Stores a step of an IP; does nothing if the view has not changed.
    fn step(&mut self, now: Duration, rv: u64, ip: Addr, view: &View) {
        let Ok(json) = serde_json::to_string(view) else {
            return;
        };
        let last_step = self.ips.get(&ip).and_then(|ring| ring.steps.back());
        let is_same = match last_step {
            Some(last_step) => *last_step.view == *json,
            None => view.is_empty(),
        };
        if is_same {
            return;
        }
        let last = last_step.map(|last_step| (last_step.at_ms, ip));
        let step = Kept {
            at_ms: milliseconds(now),
            rv,
            view: json.into(),
        };
        let is_ordered = last.is_some_and(|last| self.order.remove(&last));
        if !is_ordered {
            self.octets += ENTRY;
        }
        self.octets += octets(&step);
        self.order.insert((step.at_ms, ip));
        let ring = self.ips.entry(ip).or_default();
        ring.steps.push_back(step);
        if ring.steps.len() > MAX_STEPS {
            ring.truncated = true;
            self.octets -= ring.steps.pop_front().as_ref().map_or(0, octets);
        }
    }

    /// The history of an IP, with its current view. The caller fills in the clocks and the mode.
    pub fn chronicle(&self, ip: Addr, view: View) -> Chronicle {
        let ring = self.ips.get(&ip);
        let mut steps = Vec::new();
        for kept in ring.into_iter().flat_map(|ring| &ring.steps) {
            if let Ok(view) = serde_json::from_str(&kept.view) {
                steps.push(Step {
                    at_ms: kept.at_ms,
                    rv: kept.rv,
                    view,
                });
            }
        }
        let began_ms = milliseconds(self.began.unwrap_or_default());
        Chronicle {
            ip: ip.ip(),
            steps,
            view,
            began_ms,
            now_ms: began_ms,
            wall_ms: 0,
            truncated: self.forgot || ring.is_some_and(|ring| ring.truncated),
            mode: String::new(),
        }
    }

    /// Keeps to so many octets.
    fn make_room(&mut self, budget: usize) {
        while self.octets > budget
            && let Some((_, ip)) = self.order.pop_first()
        {
            let ring = self.ips.remove(&ip).unwrap_or_default();
            self.octets -= ENTRY + ring.steps.iter().map(octets).sum::<usize>();
            self.forgot = true;
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn octets(step: &Kept) -> usize {
    STEP + step.view.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::PodView;

    fn ip(last: u16) -> Addr {
        let [high, low] = last.to_be_bytes();
        Addr::v4([10, 0, high, low])
    }

    fn view(name: u64) -> View {
        let pod = PodView {
            name: format!("shop/web-{name:020}"),
            ..PodView::default()
        };
        View {
            pods: vec![pod],
            ..View::default()
        }
    }

    fn note(history: &mut History, ip: Addr, name: u64) {
        history.step(Duration::from_secs(name), name, ip, &view(name));
    }

    /// resourceVersions of the steps, and whether earlier ones were dropped.
    fn of(history: &History, last: u16) -> (Vec<u64>, bool) {
        let chronicle = history.chronicle(ip(last), View::default());
        (
            chronicle.steps.iter().map(|step| step.rv).collect(),
            chronicle.truncated,
        )
    }

    #[test]
    fn an_unchanged_or_empty_view_adds_no_step() {
        let mut history = History::default();
        history.step(Duration::ZERO, 1, ip(1), &View::default());
        assert_eq!(of(&history, 1), (vec![], false));
        for name in [1, 1, 2, 1] {
            note(&mut history, ip(1), name);
        }
        assert_eq!(of(&history, 1), (vec![1, 2, 1], false));
        for name in 2..100 {
            note(&mut history, ip(1), name);
        }
        assert_eq!(
            of(&history, 1),
            ((36..100).collect(), true),
            "the newest ones stay"
        );
    }

    #[test]
    fn in_a_full_history_the_least_active_ip_loses_its_steps() {
        let mut history = History::default();
        for name in 0..1000 {
            note(&mut history, ip(u16::try_from(name).unwrap()), name);
            note(&mut history, ip(0), name + 1);
            history.make_room(128 * 1024);
            assert!(history.octets <= 128 * 1024);
        }
        assert_eq!(of(&history, 1), (vec![], true));
        assert_eq!(of(&history, 0).0.len(), MAX_STEPS);
        assert_eq!(of(&history, 999), (vec![999], true));
    }
}
