//! Counts what reaches the API server, by seconds of the virtual clock.

use super::asked::Asked;
use super::capacity::as_f64;
use super::clock::now;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Seconds of a rate that is compared with that at rest: some rounds of confirmations.
const WINDOW: usize = 60;

#[derive(Default)]
pub(crate) struct Meter(Mutex<Counts>);

#[derive(Clone, Default)]
pub(crate) struct Counts {
    seconds: Vec<Second>,
    /// Reads of whole collections, and pages of such.
    pub(crate) whole: usize,
    /// The last of them.
    pub(crate) last_whole: String,
    /// Requests that got 429.
    pub(crate) refused: usize,
    /// Open watches that the API server broke.
    pub(crate) broken: usize,
    /// Healthy watches that an agent ended.
    pub(crate) ended: usize,
}

#[derive(Clone, Copy, Default)]
struct Second {
    requests: usize,
    octets: usize,
}

impl Meter {
    pub(crate) fn request(&self, asked: &Asked) {
        let mut counts = self.lock();
        counts.now().requests += 1;
        if asked.is_whole() {
            counts.whole += 1;
            counts.last_whole = asked.to_string();
        }
    }

    pub(crate) fn octets(&self, octets: usize) {
        self.lock().now().octets += octets;
    }

    pub(crate) fn refused(&self) {
        self.lock().refused += 1;
    }

    pub(crate) fn broken(&self) {
        self.lock().broken += 1;
    }

    pub(crate) fn ended(&self) {
        self.lock().ended += 1;
    }

    /// All counts so far.
    pub(crate) fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap()
    }
}

impl Counts {
    fn now(&mut self) -> &mut Second {
        let second = second(now());
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }

    /// Requests and octets a second.
    pub(crate) fn mean(&self, time: Range<Duration>) -> [f64; 2] {
        let seconds = second(time.start)..second(time.end);
        [self.requests(seconds.clone()), self.octets(seconds)]
    }

    /// The most requests, and the most octets, in a second.
    pub(crate) fn peak(&self, time: Range<Duration>) -> [f64; 2] {
        let seconds = || (second(time.start)..second(time.end)).map(|second| second..second + 1);
        let most = |rates: &mut dyn Iterator<Item = f64>| rates.fold(0.0, f64::max);
        [
            most(&mut seconds().map(|second| self.requests(second))),
            most(&mut seconds().map(|second| self.octets(second))),
        ]
    }

    /// After how long, from the beginning of `time`, the requests of each later window came at this rate at most. None: not in
    /// this time.
    pub(crate) fn settled(&self, time: Range<Duration>, rate: f64) -> Option<Duration> {
        let (first, end) = (second(time.start), second(time.end));
        let mut windows = (first..=end.saturating_sub(WINDOW)).rev();
        let busy = windows.find(|start| self.requests(*start..start + WINDOW) > rate);
        let settled = busy.map_or(first, |start| start + 1);
        (settled + WINDOW <= end).then(|| Duration::from_secs((settled - first) as u64))
    }

    fn requests(&self, seconds: Range<usize>) -> f64 {
        self.rate(seconds, |second| second.requests)
    }

    fn octets(&self, seconds: Range<usize>) -> f64 {
        self.rate(seconds, |second| second.octets)
    }

    fn rate(&self, seconds: Range<usize>, count: fn(&Second) -> usize) -> f64 {
        let shown = self.seconds.iter().take(seconds.end).skip(seconds.start);
        as_f64(shown.map(count).sum()) / as_f64(seconds.len().max(1))
    }
}

fn second(time: Duration) -> usize {
    usize::try_from(time.as_secs()).unwrap()
}
