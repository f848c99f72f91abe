//! The rows, with their peers and limits.

use crate::Mode;
use crate::bpf::Kind;
use crate::node::Destination::{self, Other, Spared, Stale};
use crate::node::State::{self, Contradicted, Enforce, Idle, Observe, Orphans};
use crate::rig::BOTH;

/// What runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Empty(Kind),
    /// Twice an empty TC program.
    TwoEmpty,
    /// A program of epguard.
    Program(State, &'static str),
    /// Both hooks, where each packet is reported to the agent.
    Reported,
    /// xdp-filter with this many addresses.
    XdpFilter(u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Pass,
    Drop,
}

pub struct Case {
    pub name: &'static str,
    pub subject: Subject,
    pub to: Destination,
    pub end: End,
    /// The empty programs of its kind.
    pub peer: Option<&'static str>,
    /// Most of the ratio to the peer, IPv4 and IPv6.
    pub at_most: Option<[f64; 2]>,
    /// A second peer, which the row may not be above.
    pub not_above: Option<&'static str>,
}

const INGRESS: &str = "epguard_from";
const EGRESS: &str = "epguard_to";
const XDP: &str = "epguard_xdp";

const EMPTY_TC: &str = "empty TC program";
const TWO_EMPTY_TC: &str = "two empty TC programs";
const EMPTY_XDP: &str = "empty XDP program";
const FILTER_PASS: &str = "xdp-filter, 1,000 addresses, pass";

const MISS: Option<[f64; 2]> = Some([1.15; 2]);

#[rustfmt::skip]
pub const CASES: [Case; 21] = [
    peer(EMPTY_TC, Subject::Empty(Kind::Tc)),
    peer(TWO_EMPTY_TC, Subject::TwoEmpty),
    peer(EMPTY_XDP, Subject::Empty(Kind::XdpFrags)),
    tc("idle: ingress hook", Idle, INGRESS, Other, Some([1.15; 2])),
    tc("idle: egress hook", Idle, EGRESS, Other, Some([1.15; 2])),
    tc("ingress hook, unaffected destination", Enforce, INGRESS, Other, MISS),
    tc("egress hook, no suspect", Enforce, EGRESS, Other, MISS),
    tc("egress hook, suspect without a connection", Enforce, EGRESS, Stale, None),
    tc("egress hook, suspect with a contradictory connection", Contradicted, EGRESS, Stale, None),
    tc("ingress hook, unaffected destination, orphan IPs", Orphans, INGRESS, Other, MISS),
    tc("egress hook, no suspect, orphan IPs", Orphans, EGRESS, Other, MISS),
    both("both hooks, miss, orphan IPs", Orphans, Other, End::Pass, None),
    both("both hooks, suspect without a denial", Enforce, Spared, End::Pass, None),
    both("both hooks, denied in observe", Observe, Stale, End::Pass, None),
    both("both hooks, denied in enforce, no event", Enforce, Stale, End::Drop, Some([5.5; 2])),
    Case { subject: Subject::Reported, ..both("both hooks, denied in enforce, with event", Enforce, Stale, End::Drop, None) },
    Case { not_above: Some(FILTER_PASS), ..xdp("XDP, orphan IPs, miss", Other, End::Pass, Some([1.6; 2])) },
    xdp("XDP, orphan IP, drop", Stale, End::Drop, None),
    filter("xdp-filter, 1 address, pass", 1, Other, End::Pass),
    filter(FILTER_PASS, 1_000, Other, End::Pass),
    filter("xdp-filter, 1,000 addresses, drop", 1_000, Stale, End::Drop),
];

const fn peer(name: &'static str, subject: Subject) -> Case {
    Case { name, subject, to: Other, end: End::Pass, peer: None, at_most: None, not_above: None }
}

const fn tc(
    name: &'static str,
    state: State,
    program: &'static str,
    to: Destination,
    at_most: Option<[f64; 2]>,
) -> Case {
    Case { to, peer: Some(EMPTY_TC), at_most, ..peer(name, Subject::Program(state, program)) }
}

const fn both(
    name: &'static str,
    state: State,
    to: Destination,
    end: End,
    at_most: Option<[f64; 2]>,
) -> Case {
    Case { end, peer: Some(TWO_EMPTY_TC), ..tc(name, state, BOTH, to, at_most) }
}

const fn xdp(name: &'static str, to: Destination, end: End, at_most: Option<[f64; 2]>) -> Case {
    Case { end, peer: Some(EMPTY_XDP), ..tc(name, Orphans, XDP, to, at_most) }
}

const fn filter(name: &'static str, addresses: u32, to: Destination, end: End) -> Case {
    Case { to, end, peer: Some(EMPTY_XDP), ..peer(name, Subject::XdpFilter(addresses)) }
}

impl Case {
    /// Whether packets of the row can go to destinations like this: the one entry of a connection is of one destination.
    pub fn is_in(&self, mode: Mode) -> bool {
        let has_entry = self.is_two() && matches!(self.to, Stale | Spared);
        mode == Mode::Hot || !has_entry
    }

    /// Whether two empty programs are its peer.
    pub fn is_two(&self) -> bool {
        self.peer == Some(TWO_EMPTY_TC)
    }
}

impl Subject {
    pub fn kind(self) -> Kind {
        match self {
            Self::Empty(kind) => kind,
            Self::Program(_, XDP) => Kind::XdpFrags,
            Self::XdpFilter(_) => Kind::Xdp,
            Self::TwoEmpty | Self::Program(..) | Self::Reported => Kind::Tc,
        }
    }
}

impl End {
    /// What a program returns.
    pub fn action(self, kind: Kind) -> u32 {
        /// `TC_ACT_UNSPEC`, `TC_ACT_SHOT`.
        const TC: [u32; 2] = [u32::MAX, 2];
        /// `XDP_PASS`, `XDP_DROP`.
        const XDP: [u32; 2] = [2, 1];
        let actions = if kind == Kind::Tc { TC } else { XDP };
        actions[usize::from(self == Self::Drop)]
    }
}
