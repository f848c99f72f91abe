//! Nanoseconds of a packet in each program, by program test runs, beside empty programs and
//! xdp-filter.
//!
//! A sample is the least of a few test runs. 1,000 suspects, Services and denials of each IP
//! version; where named, as many orphan IPs. A test run has no conntrack entry: that of the rows
//! with both hooks lies in a map. The contradictory one is read from the kernel's memory.

mod node;

use super::bpf::{self, Kind, Ran};
use super::programs::rig::{BOTH, Rig};
use epguard_common::Gates;
use epguard_lab::figures::{Row, Table, in_turns};
use node::Destination::{self, Other, Shared, Spared, Stale};
use node::Family;
use node::State::{self, Contradicted, Enforce, Idle, Observe, Orphans};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// What runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Empty(Kind),
    /// Twice an empty TC program.
    TwoEmpty,
    /// A program of epguard.
    Program(State, &'static str),
    /// Both hooks, where each packet is reported to the agent.
    Reported,
    /// xdp-filter with the addresses of all suspects.
    XdpFilter,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Pass,
    Drop,
}

struct Case {
    name: &'static str,
    subject: Subject,
    to: Destination,
    end: End,
    /// The empty programs of its kind.
    peer: &'static str,
    /// Of the ratio to the peer.
    at_most: Option<f64>,
}

const INGRESS: &str = "epguard_from";
const EGRESS: &str = "epguard_to";
const XDP: &str = "epguard_xdp";

const EMPTY_TC: &str = "empty TC program";
const TWO_EMPTY_TC: &str = "two empty TC programs";
const EMPTY_XDP: &str = "empty XDP program";

const MISS: Option<f64> = Some(1.15);

#[rustfmt::skip]
const CASES: [Case; 22] = [
    empty(EMPTY_TC, Subject::Empty(Kind::Tc)),
    empty(TWO_EMPTY_TC, Subject::TwoEmpty),
    empty(EMPTY_XDP, Subject::Empty(Kind::Xdp)),
    tc("idle: ingress hook", Idle, INGRESS, Other, MISS),
    tc("idle: egress hook", Idle, EGRESS, Other, MISS),
    tc("ingress hook, unaffected destination", Enforce, INGRESS, Other, MISS),
    tc("egress hook, no suspect", Enforce, EGRESS, Other, MISS),
    tc("egress hook, suspect without a connection", Enforce, EGRESS, Stale, None),
    tc("egress hook, suspect with a contradictory connection", Contradicted, EGRESS, Stale, None),
    tc("ingress hook, unaffected destination, orphan IPs", Orphans, INGRESS, Other, MISS),
    tc("the same, in a bucket of the first gate with an orphan IP", Orphans, INGRESS, Shared, None),
    tc("egress hook, no suspect, orphan IPs", Orphans, EGRESS, Other, MISS),
    tc("the same, in a bucket of the first gate with a suspect", Orphans, EGRESS, Shared, None),
    both("both hooks, miss, orphan IPs", Orphans, Other, End::Pass, None),
    both("both hooks, suspect without a denial", Enforce, Spared, End::Pass, None),
    both("both hooks, denied in observe", Observe, Stale, End::Pass, None),
    both("both hooks, denied in enforce, no event", Enforce, Stale, End::Drop, Some(5.5)),
    Case { subject: Subject::Reported, ..both("both hooks, denied in enforce, with event", Enforce, Stale, End::Drop, None) },
    xdp("XDP, orphan IPs, miss", Subject::Program(Orphans, XDP), Other, End::Pass, Some(1.6)),
    xdp("XDP, orphan IP, drop", Subject::Program(Orphans, XDP), Stale, End::Drop, None),
    xdp("xdp-filter, 1,000 addresses, pass", Subject::XdpFilter, Other, End::Pass, None),
    xdp("xdp-filter, 1,000 addresses, drop", Subject::XdpFilter, Stale, End::Drop, None),
];

const fn empty(name: &'static str, subject: Subject) -> Case {
    Case {
        name,
        subject,
        to: Other,
        end: End::Pass,
        peer: name,
        at_most: None,
    }
}

const fn tc(
    name: &'static str,
    state: State,
    program: &'static str,
    to: Destination,
    at_most: Option<f64>,
) -> Case {
    Case {
        name,
        to,
        peer: EMPTY_TC,
        at_most,
        ..empty(name, Subject::Program(state, program))
    }
}

const fn both(
    name: &'static str,
    state: State,
    to: Destination,
    end: End,
    at_most: Option<f64>,
) -> Case {
    Case {
        end,
        peer: TWO_EMPTY_TC,
        ..tc(name, state, BOTH, to, at_most)
    }
}

const fn xdp(
    name: &'static str,
    subject: Subject,
    to: Destination,
    end: End,
    at_most: Option<f64>,
) -> Case {
    Case {
        to,
        end,
        peer: EMPTY_XDP,
        at_most,
        ..empty(name, subject)
    }
}

impl Case {
    /// What a program of its kind returns for its end.
    fn action(&self) -> u32 {
        /// `TC_ACT_UNSPEC`, `TC_ACT_SHOT`.
        const TC: [u32; 2] = [u32::MAX, 2];
        /// `XDP_PASS`, `XDP_DROP`.
        const XDP: [u32; 2] = [2, 1];
        let actions = if self.peer == EMPTY_XDP { XDP } else { TC };
        actions[usize::from(self.end == End::Drop)]
    }
}

/// A table for each IP version.
pub(crate) fn tables(quick: bool) -> Vec<Table> {
    let (rounds, runs) = if quick { (3, 3) } else { (21, 5) };
    node::enter();
    let mut bench = Bench::new(runs);
    let cases: Vec<&Case> = CASES
        .iter()
        .filter(|case| bench.program(case.subject).is_some())
        .collect();
    let table = |family: Family| {
        let frames: Vec<Vec<u8>> = cases
            .iter()
            .map(|case| node::frame_to(&bench.gates, case.to, family))
            .collect();
        let samples = in_turns(rounds, cases.len(), |row| {
            [bench.sample(cases[row], family, &frames[row])]
        });
        let mut table = Table::new(format!("A packet, {family:?}"));
        let rows = cases.iter().zip(samples);
        table.rows = rows
            .map(|(case, [samples])| {
                Row::new(case.name, "ns", samples)
                    .beside(case.peer)
                    .at_most(case.at_most)
            })
            .collect();
        table
    };
    [Family::V4, Family::V6].map(table).into()
}

/// The programs in all states.
struct Bench {
    rigs: Vec<(State, Rig)>,
    empty_tc: OwnedFd,
    empty_xdp: OwnedFd,
    /// None if it is not installed.
    filter: Option<OwnedFd>,
    /// Of the state with most addresses.
    gates: Gates,
    /// Of which a sample is the least.
    runs: u32,
}

impl Bench {
    fn new(runs: u32) -> Self {
        let states = [Idle, Observe, Enforce, Orphans, Contradicted];
        let rigs: Vec<_> = states.map(|state| (state, node::rig(state))).into();
        let filter = node::xdp_filter();
        let gates = rigs
            .iter()
            .find(|(state, _)| *state == Orphans)
            .unwrap()
            .1
            .gates();
        let [empty_tc, empty_xdp] = [Kind::Tc, Kind::Xdp].map(bpf::empty);
        Self {
            rigs,
            empty_tc,
            empty_xdp,
            filter,
            gates,
            runs,
        }
    }

    /// Nanoseconds of a packet.
    fn sample(&mut self, case: &Case, family: Family, frame: &[u8]) -> f64 {
        if case.subject == Subject::Reported {
            return self.reported(case, family, frame);
        }
        if let Subject::Program(state, _) = case.subject {
            self.rig(state).track(frame);
        }
        // Packets of a test run that takes about 5 ms.
        let packets = 5_000_000 / self.run(case, frame, 1_000).kernel_ns.max(1);
        let runs = (0..self.runs).map(|_| self.run(case, frame, packets).each_ns);
        let least = runs.fold(f64::INFINITY, f64::min);
        if case.subject == Subject::TwoEmpty {
            2.0 * least
        } else {
            least
        }
    }

    /// Mean of a few short runs in which the agent gets an event for each packet. By the kernel's
    /// clock: it leaves out the call around the run.
    fn reported(&mut self, case: &Case, family: Family, frame: &[u8]) -> f64 {
        /// Fewer than a suspect may report in a second, [`epguard_common::Rate`].
        const PACKETS: u32 = 90;
        const RUNS: u32 = 10;
        let mut sum = 0.0;
        self.rig(Enforce).track(frame);
        for _ in 0..RUNS {
            let rig = self.rig(Enforce);
            node::renew_suspect(rig, Stale.address(family, 0));
            rig.events();
            sum += f64::from(self.run(case, frame, PACKETS).kernel_ns);
            assert_eq!(
                self.rig(Enforce).events().len(),
                PACKETS as usize,
                "{}",
                case.name
            );
        }
        sum / f64::from(RUNS)
    }

    /// Runs the case's program, which has to end packets as the case expects.
    fn run(&mut self, case: &Case, frame: &[u8], packets: u32) -> Ran {
        let program = self.program(case.subject).unwrap();
        let ran = bpf::test_run(program, frame, packets);
        assert_eq!(ran.action, case.action(), "{}", case.name);
        ran
    }

    fn program(&mut self, subject: Subject) -> Option<BorrowedFd<'_>> {
        match subject {
            Subject::Empty(Kind::Tc) | Subject::TwoEmpty => Some(self.empty_tc.as_fd()),
            Subject::Empty(Kind::Xdp) => Some(self.empty_xdp.as_fd()),
            Subject::Program(state, name) => Some(self.rig(state).program(name)),
            Subject::Reported => Some(self.rig(Enforce).program(BOTH)),
            Subject::XdpFilter => self.filter.as_ref().map(OwnedFd::as_fd),
        }
    }

    fn rig(&mut self, state: State) -> &mut Rig {
        let (_, rig) = self.rigs.iter_mut().find(|(of, _)| *of == state).unwrap();
        rig
    }
}
