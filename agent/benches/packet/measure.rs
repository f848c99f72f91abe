//! Takes the samples.

use crate::bare::{self, Spreader};
use crate::bpf::{Kind, Ran, test_run};
use crate::case::{Case, Subject};
use crate::form;
use crate::node::{self, Destination, Family, State};
use crate::rig::{BOTH, Rig};
use crate::{Mode, xdp_filter};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// About 4 ms.
const EMPTY_PACKETS: u32 = 100_000;

/// Test runs of which the sample of a row with events is the mean.
const RUNS_WITH_EVENTS: u32 = 10;
/// Fewer than a suspect may report in a second, [`epguard_common::Rate`].
const PACKETS_WITH_EVENTS: u32 = 90;
/// Fewer than the ring has room for, and to each suspect fewer than it may report.
const RANDOM_PACKETS_WITH_EVENTS: u32 = 1_000;

/// The programs in all states.
pub struct Bench {
    rigs: Vec<(State, Rig)>,
    empty: Vec<(Kind, OwnedFd)>,
    /// With this many addresses.
    filters: Vec<(u32, OwnedFd)>,
    /// Of which a sample is the least.
    runs: u32,
}

/// A row of one IP version, with its samples.
pub struct Entry {
    pub case: &'static Case,
    pub family: Family,
    pub mode: Mode,
    pub samples: Vec<f64>,
    /// To the empty program beside it.
    pub ratios: Vec<f64>,
    frame: Vec<u8>,
    spreader: Spreader,
}

impl Bench {
    /// `runs`: test runs of which a sample is the least.
    pub fn new(runs: u32) -> Self {
        let states = [State::Idle, State::Observe, State::Enforce, State::Orphans, State::Contradicted];
        let kinds = [Kind::Tc, Kind::Xdp, Kind::XdpFrags];
        let mut filters = Vec::new();
        // Not for tests, which need no other package.
        if !form::is_quick() && xdp_filter::is_installed() {
            let all: Vec<_> = node::stale().collect();
            let one = Destination::Stale.address(Family::V4, 0);
            filters.push((1, xdp_filter::load("one", &[one])));
            filters.push((node::STALE, xdp_filter::load("thousand", &all)));
        }
        Self {
            rigs: states.map(|state| (state, node::rig(state))).into(),
            empty: kinds.map(|kind| (kind, bare::empty(kind).unwrap())).into(),
            filters,
            runs,
        }
    }

    pub fn entry(&mut self, case: &'static Case, family: Family, mode: Mode) -> Entry {
        // Of all states the one with most addresses.
        let gate = self.rig(State::Orphans).gate();
        let kind = case.subject.kind();
        let spread = node::spread(&gate, case.to, family);
        let spreader = Spreader::new(kind, spread.len(), node::offset(family), case.to.count()).unwrap();
        let frame = match mode {
            Mode::Hot => node::one(&gate, case.to, family),
            Mode::Random => spread,
        };
        Entry { case, family, mode, samples: Vec::new(), ratios: Vec::new(), frame, spreader }
    }

    /// Adds a sample to a row, unless its program is missing.
    pub fn sample(&mut self, entry: &mut Entry) {
        let measured = match entry.case.subject {
            Subject::Reported => self.reported(entry),
            _ => self.least(entry),
        };
        let Some([mut own, mut empty]) = measured else {
            return;
        };
        if entry.case.subject == Subject::TwoEmpty {
            own *= 2.0;
        }
        if entry.case.is_two() {
            empty *= 2.0;
        }
        entry.samples.push(own);
        entry.ratios.push(own / empty);
    }

    /// Nanoseconds of the row's program and of the empty one, in turns.
    fn least(&mut self, entry: &Entry) -> Option<[f64; 2]> {
        if let Subject::Program(state, _) = entry.case.subject {
            self.rig(state).track(&entry.frame);
        }
        // Packets of a test run that takes about 5 ms.
        let packets = 5_000_000 / self.run(entry, 1_000)?.kernel_ns.max(1);
        let (mut own, mut empty, mut spreading) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for _ in 0..self.runs {
            own = own.min(self.run(entry, packets)?.each_ns);
            empty = empty.min(self.alone(entry));
            spreading = match entry.mode {
                Mode::Hot => empty,
                Mode::Random => spreading.min(self.spreading(entry)),
            };
        }
        Some([own - (spreading - empty), empty])
    }

    /// Mean of a few short runs in which the agent gets an event for each packet. By the kernel's clock: it leaves out the call
    /// around the run.
    fn reported(&mut self, entry: &Entry) -> Option<[f64; 2]> {
        let packets = match entry.mode {
            Mode::Hot => PACKETS_WITH_EVENTS,
            Mode::Random => RANDOM_PACKETS_WITH_EVENTS,
        };
        let mut sum = 0.0;
        node::renew_suspects(self.rig(State::Enforce));
        self.rig(State::Enforce).track(&entry.frame);
        for _ in 0..RUNS_WITH_EVENTS {
            let rig = self.rig(State::Enforce);
            if entry.mode == Mode::Hot {
                node::renew(rig, Destination::Stale.address(entry.family, 0));
            }
            rig.events();
            sum += f64::from(self.run(entry, packets)?.kernel_ns);
            let events = self.rig(State::Enforce).events().len();
            assert_eq!(events, packets as usize, "{}", entry.case.name);
        }
        let mean = sum / f64::from(RUNS_WITH_EVENTS);
        let empty = self.alone(entry);
        let spreading = match entry.mode {
            Mode::Hot => empty,
            Mode::Random => self.spreading(entry),
        };
        Some([mean - (spreading - empty), empty])
    }

    /// An empty program.
    fn alone(&self, entry: &Entry) -> f64 {
        let empty = self.empty(entry.case.subject.kind());
        test_run(empty, &entry.frame, EMPTY_PACKETS).unwrap().each_ns
    }

    /// An empty program behind the spreader.
    fn spreading(&self, entry: &Entry) -> f64 {
        let spreader = entry.spreader.to(self.empty(entry.case.subject.kind())).unwrap();
        test_run(spreader, &entry.frame, EMPTY_PACKETS).unwrap().each_ns
    }

    /// Runs the row's program, which has to end packets as the row expects. None if the program is missing.
    fn run(&mut self, entry: &Entry, packets: u32) -> Option<Ran> {
        let program = self.program(entry.case.subject)?;
        let program = match entry.mode {
            Mode::Hot => program,
            Mode::Random => entry.spreader.to(program).unwrap(),
        };
        let ran = test_run(program, &entry.frame, packets).unwrap();
        let expected = entry.case.end.action(entry.case.subject.kind());
        assert_eq!(ran.action, expected, "{}, {:?}", entry.case.name, entry.family);
        Some(ran)
    }

    fn program(&mut self, subject: Subject) -> Option<BorrowedFd<'_>> {
        Some(match subject {
            Subject::Empty(kind) => self.empty(kind),
            Subject::TwoEmpty => self.empty(Kind::Tc),
            Subject::Program(state, name) => self.rig(state).program(name),
            Subject::Reported => self.rig(State::Enforce).program(BOTH),
            Subject::XdpFilter(addresses) => {
                let (_, filter) = self.filters.iter().find(|(of, _)| *of == addresses)?;
                filter.as_fd()
            }
        })
    }

    fn empty(&self, kind: Kind) -> BorrowedFd<'_> {
        let (_, empty) = self.empty.iter().find(|(of, _)| *of == kind).unwrap();
        empty.as_fd()
    }

    fn rig(&mut self, state: State) -> &mut Rig {
        let (_, rig) = self.rigs.iter_mut().find(|(of, _)| *of == state).unwrap();
        rig
    }
}
