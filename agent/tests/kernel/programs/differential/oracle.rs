//! What the programs have to do with a frame, written from the documents and not from their code.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// A program that a frame runs through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    Xdp,
    Ingress,
    Egress,
    /// The egress hook behind the ingress hook, on the same packet, with the entry of the tables.
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
    /// Whether the frames come in at an interface that is hooked. Else they come from nowhere, as
    /// those that the node makes, or that a device sends for somebody else.
    pub come_in: bool,
    length: u32,
}

impl<'a> Oracle<'a> {
    pub fn new(tables: &'a Tables) -> Self {
        Self {
            tables,
            lifted: BTreeSet::new(),
            counts: Counts::new(),
            come_in: false,
            length: 0,
        }
    }

    /// Whether the program stops the frame.
    pub fn stops(&mut self, program: Program, frame: &[u8]) -> bool {
        let wire = read(frame);
        self.length = u32::try_from(frame.len()).expect("a frame's length");
        match program {
            Program::Xdp => self.xdp(&wire),
            // No socket load balancer, no redirected flow.
            Program::Ingress => false,
            Program::Egress => self.egress(&wire, &Tracked::NONE),
            Program::Both => self.egress(&wire, &self.tables.connection),
        }
    }

    fn xdp(&mut self, wire: &Wire) -> bool {
        if self.tables.view.terminated == 0 {
            return false;
        }
        self.lift(wire);
        let is_ours = wire.receiver == [0; 6] && !wire.is_tagged;
        // What passes here is counted where it leaves.
        wire.ip.is_some_and(|ip| match self.orphan(&ip) {
            Some(Outcome::Dropped) if is_ours && leads_away(ip.src, ip.dst) => {
                self.stop(Reason::Terminated, &ip, wire, Action::Unset)
            }
            _ => false,
        })
    }

    /// What becomes of a packet to an orphan IP that leaves the node; `None`: it isn't one.
    fn orphan(&self, ip: &Ip) -> Option<Outcome> {
        let dst = Addr::from(ip.dst);
        let bound = *self.tables.terminated.get(&dst)?;
        let mode = self.tables.mode(Reason::Terminated).min(bound);
        Some(if self.lifted.contains(&dst) {
            Outcome::Lifted
        } else if mode == Mode::Off {
            Outcome::Off
        } else if !self.tables.is_fresh() {
            Outcome::LeaseExpired
        } else if mode == Mode::Enforce {
            Outcome::Dropped
        } else {
            Outcome::Observed
        })
    }

    /// What becomes of a packet that leaves the node here, for an orphan IP that no translator sent
    /// it to.
    fn leaving(&self, wire: &Wire, ip: &Ip, tracked: &Tracked) -> Leaving {
        let leaves = matches!(
            self.tables.exit,
            Some(Role::Uplink | Role::Tunnel | Role::Stacked)
        );
        let is_for_us = wire.receiver == [0; 6];
        let has_orphans = self.tables.view.terminated != 0;
        let is_direct = match asked(ip, tracked) {
            Asked::Itself => true,
            // A process of this node may answer.
            Asked::Nothing => self.come_in || ip.ports.is_some_and(|ports| ports.opens),
            _ => false,
        };
        let outcome = if has_orphans && leaves && is_for_us && is_direct {
            self.orphan(ip)
        } else {
            None
        };
        let to_device = self.tables.exit == Some(Role::Tunnel) && leads_to_device(ip.src, ip.dst);
        match outcome {
            None => Leaving::Not,
            Some(Outcome::Lifted | Outcome::Off | Outcome::LeaseExpired) => {
                Leaving::Judged(outcome)
            }
            Some(_)
                if !self.come_in
                    && (leads_away(ip.dst, ip.src) || leads_to_device(ip.dst, ip.src)) =>
            {
                Leaving::Judged(None)
            }
            Some(_) if leads_away(ip.src, ip.dst) || to_device => Leaving::Judged(outcome),
            Some(_) => Leaving::Judged(Some(Outcome::Announced)),
        }
    }

    /// Whether the egress hook stops a packet with this entry.
    fn egress(&mut self, wire: &Wire, tracked: &Tracked) -> bool {
        let tables = self.tables;
        let view = &self.tables.view;
        if view.terminated != 0 {
            self.lift(wire);
        }
        let is_idle = view.suspects == 0 && view.flows == 0 && view.terminated == 0;
        if is_idle || tables.config.mode == Mode::Off {
            return false;
        }
        let Some(ip) = wire.ip else {
            return false;
        };
        match self.leaving(wire, &ip, tracked) {
            Leaving::Judged(Some(Outcome::Dropped)) => {
                return self.stop(Reason::Terminated, &ip, wire, Action::Unset);
            }
            Leaving::Judged(Some(outcome)) => return self.count(Reason::Terminated, outcome, &ip),
            Leaving::Judged(None) => return false,
            Leaving::Not => {}
        }
        let Some(flags) = tables.suspects.get(&ip.dst.into()) else {
            return false;
        };
        if flags & Suspect::DENIED == 0 {
            return self.count(Reason::Nothing, Outcome::Draining, &ip);
        }
        let denial = match self.denial(&ip, tracked) {
            Ok(denial) => denial,
            Err(_) if flags & Suspect::DRAINING != 0 => {
                return self.count(Reason::Nothing, Outcome::Draining, &ip);
            }
            Err(without) => return self.count(Reason::Nothing, without, &ip),
        };
        let opens = ip.ports.is_some_and(|ports| ports.opens);
        let mode = tables.mode(denial.reason).min(denial.mode);
        let outcome = match denial.uid_state {
            UidState::Live => Outcome::Established,
            UidState::Retired if !opens => Outcome::Established,
            _ if mode == Mode::Off => Outcome::Off,
            _ if !tables.is_fresh() => Outcome::LeaseExpired,
            _ if mode == Mode::Observe || denial.stopped != 0 => Outcome::Observed,
            _ => return self.stop(denial.reason, &ip, wire, denial.action),
        };
        self.count(denial.reason, outcome, &ip)
    }

    /// The denial of the packet's endpoint for the Service that its connection was opened to; or
    /// why there is none.
    fn denial(&self, ip: &Ip, tracked: &Tracked) -> Result<&'a Denial, Outcome> {
        let vip = match asked(ip, tracked) {
            Asked::Nothing => return Err(Outcome::NoConnection),
            Asked::Unreadable => return Err(Outcome::UnreadableConnection),
            Asked::Itself | Asked::Reply => return Err(Outcome::NoIntent),
            Asked::Service(vip) => vip,
        };
        let port = u16::from_be(tracked.entry.reply.src_port);
        let protocol = vip.protocol;
        let service = self.tables.services.get(&vip).ok_or(Outcome::NoIntent)?;
        let denial = self.tables.denial(ip.dst, *service, port, protocol);
        denial.ok_or(Outcome::NotDenied)
    }

    fn lift(&mut self, wire: &Wire) {
        let holder = wire.holder.map(Addr::from);
        self.lifted
            .extend(holder.filter(|holder| self.tables.terminated.contains_key(holder)));
    }

    /// Stops the packet. Without a live endpoint it is rejected instead of redirected. The limits
    /// have no room for an answer, which is counted where one could be given.
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
}

/// Whether a packet leaves the node for an orphan IP.
enum Leaving {
    Not,
    /// It does; nothing is counted of one that is of another network.
    Judged(Option<Outcome>),
}

/// What the sender of a packet asked for, by this entry of conntrack.
enum Asked {
    Nothing,
    Unreadable,
    Itself,
    /// The packet is a reply.
    Reply,
    Service(Vip),
}

fn asked(ip: &Ip, tracked: &Tracked) -> Asked {
    const FIRST_OF_REPLIES: u64 = 3;
    let original = &tracked.entry.original;
    let reply = &tracked.entry.reply;
    let info = tracked.reference & 7;
    if tracked.reference & !7 == 0 || original.family == 0 {
        return Asked::Nothing;
    }
    if info >= FIRST_OF_REPLIES {
        return Asked::Reply;
    }
    let quotes = quotes_a_packet(ip, original.protocol, info);
    // A later fragment shows the header that follows: another extension, for a datagram that has
    // one there.
    let hides = ip.dst.is_ipv6() && matches!(ip.protocol, 0 | 43 | 44 | 51 | 60);
    let protocol = if hides {
        original.protocol
    } else {
        ip.protocol
    };
    let vip = address(original.family, original.dst);
    let agrees = reply.protocol == original.protocol
        && (quotes || protocol == original.protocol)
        && address(reply.family, reply.src) == Some(ip.dst)
        && vip.is_some_and(|vip| vip.is_ipv4() == ip.dst.is_ipv4())
        && ip
            .ports
            .is_none_or(|ports| ports.dst.to_be() == reply.src_port);
    let Some(vip) = vip else {
        return Asked::Unreadable;
    };
    if !agrees {
        return Asked::Unreadable;
    }
    if vip == ip.dst || !quotes && !matches!(protocol, 6 | 17 | 132) {
        return Asked::Itself;
    }
    let port = u16::from_be(original.dst_port);
    Asked::Service(Vip {
        addr: vip.into(),
        port,
        protocol: original.protocol,
        reserved: 0,
    })
}

/// Whether the packet is an ICMP error about another protocol's connection (`IP_CT_RELATED`).
fn quotes_a_packet(ip: &Ip, protocol: u8, info: u64) -> bool {
    let icmp = if ip.dst.is_ipv4() { 1 } else { 58 };
    info == 1 && ip.protocol == icmp && protocol != icmp
}

fn address(family: u16, words: [u32; 4]) -> Option<IpAddr> {
    let [a, b, c, d] = words.map(u32::to_ne_bytes);
    match family {
        2 => Some(IpAddr::from(a)),
        10 => <[u8; 16]>::try_from([a, b, c, d].concat())
            .ok()
            .map(Ipv6Addr::from)
            .map(IpAddr::V6),
        _ => None,
    }
}

/// RFC 1122, section 3.2.2: no answer goes to or from an address that is not one host's.
fn is_one_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !matches!(ip.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(ip) => !(ip.is_multicast() || ip.is_loopback() || ip.is_unspecified()),
    }
}
