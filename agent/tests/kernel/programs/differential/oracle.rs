//! What the programs have to do with a frame, written from the documents and not from their code.

use super::node::{Leads, leads};
use super::tables::Tables;
use super::wire::{Ip, Wire, read};
use epguard_common::{Action, Addr, Count, Mode, Outcome, Reason, Sender, Slot, Suspect, UidState, Vip};
use std::collections::{BTreeMap, BTreeSet};

/// A program that a frame runs through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    Xdp,
    Ingress,
    Egress,
    /// The egress hook behind the ingress hook, on the same packet.
    Both,
}

/// Packets by what became of them.
pub type Counts = BTreeMap<(Reason, Outcome), Count>;

/// The tables, and what earlier packets have changed.
pub struct Oracle<'a> {
    tables: &'a Tables,
    /// Orphan IPs that have sent a packet.
    pub lifted: BTreeSet<Addr>,
    /// What the programs have to count in all.
    pub counts: Counts,
    /// The sender that the last packet's ingress hook stored, with the Service.
    pub aimed: Option<(Sender, Slot)>,
    length: u32,
}

impl<'a> Oracle<'a> {
    pub fn new(tables: &'a Tables) -> Self {
        Self {
            tables,
            lifted: BTreeSet::new(),
            counts: Counts::new(),
            aimed: None,
            length: 0,
        }
    }

    /// Whether the program stops the frame.
    pub fn stops(&mut self, program: Program, frame: &[u8]) -> bool {
        let wire = read(frame);
        self.aimed = None;
        self.length = u32::try_from(frame.len()).expect("a frame's length");
        match program {
            Program::Xdp => self.xdp(&wire),
            Program::Ingress => self.ingress(&wire).is_none(),
            Program::Egress => self.egress(&wire, None),
            Program::Both => match self.ingress(&wire) {
                None => true,
                Some(carried) => self.egress(&wire, carried),
            },
        }
    }

    fn xdp(&mut self, wire: &Wire) -> bool {
        if self.tables.view.terminated == 0 {
            return false;
        }
        self.lift(wire);
        // What passes here is counted at the ingress hook.
        wire.ip.is_some_and(|ip| match self.orphan(wire, &ip) {
            Some(Outcome::Dropped) => self.stop(Reason::Terminated, &ip, wire, Action::Unset),
            _ => false,
        })
    }

    /// The Service that the packet carries on; `None` if it is stopped.
    #[expect(clippy::option_option, reason = "a packet that passes may carry no Service")]
    fn ingress(&mut self, wire: &Wire) -> Option<Option<Slot>> {
        let view = &self.tables.view;
        if self.is_idle() {
            return Some(None);
        }
        let carried = wire.ip.filter(|_| view.vips != 0).and_then(|ip| self.mark(&ip));
        if view.terminated == 0 {
            return Some(carried);
        }
        self.lift(wire);
        let Some(ip) = wire.ip else {
            return Some(carried);
        };
        let stopped = match self.orphan(wire, &ip) {
            None => false,
            Some(Outcome::Dropped) => self.stop(Reason::Terminated, &ip, wire, Action::Unset),
            Some(outcome) => self.count(Reason::Terminated, outcome, &ip),
        };
        (!stopped).then_some(carried)
    }

    /// Puts the number of the Service that the packet is aimed at on the packet.
    fn mark(&mut self, ip: &Ip) -> Option<Slot> {
        let (view, ports) = (&self.tables.view, ip.ports?);
        let vip = Vip {
            addr: ip.dst.into(),
            port: ports.dst,
            protocol: ip.protocol,
            reserved: 0,
        };
        let slot = *self.tables.services.get(&vip)?;
        if self.tables.config.mode == Mode::Off {
            return None;
        }
        let sender = Sender {
            addr: ip.src.into(),
            port: ports.src,
            protocol: ip.protocol,
            reserved: 0,
        };
        if !self.tables.is_fresh() {
            self.aimed = Some((sender, slot));
            return None;
        }
        let fits = u32::from(slot.number) & view.carrier == u32::from(slot.number);
        if !fits {
            self.add(
                Reason::Nothing,
                Outcome::NotCarried,
                Count::one(self.length, false),
            );
            return None;
        }
        if view.wipers != 0 {
            self.aimed = Some((sender, slot));
        }
        Some(slot)
    }

    /// What becomes of a packet as one to an orphan IP; `None`: it isn't, or is not addressed to this node.
    fn orphan(&self, wire: &Wire, ip: &Ip) -> Option<Outcome> {
        let dst = Addr::from(ip.dst);
        let bound = *self.tables.terminated.get(&dst)?;
        if wire.receiver != [0; 6] || wire.is_tagged {
            return None;
        }
        let mode = self.tables.mode(Reason::Terminated).min(bound);
        Some(if self.lifted.contains(&dst) {
            Outcome::Lifted
        } else if mode == Mode::Off {
            Outcome::Off
        } else if !self.tables.is_fresh() {
            Outcome::LeaseExpired
        } else {
            match leads(ip) {
                Leads::Away if mode == Mode::Enforce => Outcome::Dropped,
                Leads::Away | Leads::ToBridge => Outcome::Observed,
                Leads::Elsewhere => Outcome::Held,
            }
        })
    }

    /// Whether the egress hook stops the packet.
    fn egress(&mut self, wire: &Wire, carried: Option<Slot>) -> bool {
        if self.is_idle() {
            return false;
        }
        if self.tables.view.terminated != 0 {
            self.lift(wire);
        }
        let nothing_denied = self.tables.view.suspects == 0 && self.tables.view.flows == 0;
        let Some(ip) = wire
            .ip
            .filter(|_| !nothing_denied && self.tables.config.mode != Mode::Off)
        else {
            return false;
        };
        let Some(flags) = self.tables.suspects.get(&ip.dst.into()) else {
            return false;
        };
        let drains = flags & Suspect::DRAINING != 0;
        let tables = self.tables;
        let Some(denial) = carried.and_then(|slot| tables.denial(&ip, slot)) else {
            return match carried {
                _ if drains => self.count(Reason::Nothing, Outcome::Draining, &ip),
                Some(_) => self.count(Reason::Nothing, Outcome::NotDenied, &ip),
                None => self.without_intent(&ip),
            };
        };
        let opens = ip.ports.is_some_and(|ports| ports.opens);
        let mode = self.tables.mode(denial.reason).min(denial.mode);
        let outcome = match denial.uid_state {
            UidState::Live => Outcome::Established,
            UidState::Retired if !opens => Outcome::Established,
            _ if mode == Mode::Off => Outcome::Off,
            _ if !self.tables.is_fresh() => Outcome::LeaseExpired,
            _ if mode == Mode::Observe || denial.held != 0 => Outcome::Observed,
            _ => return self.stop(denial.reason, &ip, wire, denial.action),
        };
        self.count(denial.reason, outcome, &ip)
    }

    /// A packet to a suspect that carries no Service, although the ingress hook may have seen one.
    fn without_intent(&mut self, ip: &Ip) -> bool {
        let lapsed = !self.tables.is_fresh();
        let (aimed, tables) = (
            self.aimed.filter(|_| lapsed || self.tables.view.wipers != 0),
            self.tables,
        );
        match aimed.and_then(|(_, slot)| tables.denial(ip, slot)) {
            Some(denial) if lapsed => self.count(denial.reason, Outcome::LeaseExpired, ip),
            Some(denial) => self.count(denial.reason, Outcome::IntentLost, ip),
            None => self.count(Reason::Nothing, Outcome::NoIntent, ip),
        }
    }

    fn lift(&mut self, wire: &Wire) {
        let holder = wire.holder.map(Addr::from);
        self.lifted
            .extend(holder.filter(|holder| self.tables.terminated.contains_key(holder)));
    }

    /// Stops the packet. Without a live endpoint it is rejected instead of redirected. The limits have no room for an answer,
    /// which is counted where one could be given.
    fn stop(&mut self, reason: Reason, ip: &Ip, wire: &Wire, own: Action) -> bool {
        let action = if own == Action::Unset {
            self.tables.action(reason)
        } else {
            own
        };
        let to_one = wire.receiver[0] & 1 == 0 && [ip.src, ip.dst].into_iter().all(is_one_host);
        if matches!(action, Action::Reject | Action::Redirect)
            && to_one
            && ip.ports.is_some_and(|ports| !ports.ends)
        {
            self.add(reason, Outcome::AnswerSuppressed, Count::one(0, false));
        }
        self.count(reason, Outcome::Dropped, ip);
        true
    }

    /// Counts a packet that passes; never stops it.
    fn count(&mut self, reason: Reason, outcome: Outcome, ip: &Ip) -> bool {
        let opens = ip.ports.is_some_and(|ports| ports.opens);
        self.add(reason, outcome, Count::one(self.length, opens));
        false
    }

    fn add(&mut self, reason: Reason, outcome: Outcome, count: Count) {
        let all = self.counts.entry((reason, outcome)).or_default();
        *all = all.plus(count);
    }

    fn is_idle(&self) -> bool {
        let view = &self.tables.view;
        view.suspects == 0 && view.terminated == 0 && view.flows == 0
    }
}

/// RFC 1122, section 3.2.2: no answer goes to or from an address that is not one host's.
fn is_one_host(ip: std::net::IpAddr) -> bool {
    match ip {
        std::net::IpAddr::V4(ip) => !matches!(ip.octets()[0], 0 | 127 | 224..),
        std::net::IpAddr::V6(ip) => !(ip.is_multicast() || ip.is_loopback() || ip.is_unspecified()),
    }
}
