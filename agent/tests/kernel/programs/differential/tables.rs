//! Random tables: what the oracle reads, and what the maps hold.

use super::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub const PORTS: [u16; 4] = [8080, 9090, 53, 4789];
pub const TRANSPORTS: [u8; 3] = [6, 17, 132];

#[derive(Debug)]
pub struct Tables {
    pub suspects: BTreeMap<Addr, u32>,
    pub services: BTreeMap<Vip, ServiceNumber>,
    pub denied: BTreeMap<DenialKey, Denial>,
    /// With the bound of their annotations.
    pub terminated: BTreeMap<Addr, Mode>,
    pub config: Config,
    pub view: View,
    /// Whether the programs may use the gate.
    pub gate: bool,
    /// The entry that conntrack has of each packet.
    pub connection: Tracked,
    /// What the interface leads to by which packets leave.
    pub exit: Option<Role>,
}

impl Tables {
    pub fn empty() -> Self {
        Self {
            suspects: BTreeMap::new(),
            services: BTreeMap::new(),
            denied: BTreeMap::new(),
            terminated: BTreeMap::new(),
            config: ENFORCE,
            view: FRESH,
            gate: true,
            connection: Tracked::NONE,
            exit: None,
        }
    }

    /// One of the states that a node may be in: idle, draining only, with suspects, with orphan
    /// IPs, with flows; in each mode.
    pub fn random(random: &mut Rng) -> Self {
        let mut tables = Self::empty();
        let exits = [
            Role::Uplink,
            Role::Uplink,
            Role::Uplink,
            Role::Tunnel,
            Role::Stacked,
            Role::Pod,
            Role::Bridge,
        ];
        let exit = random.choice(exits);
        if random.u8(..10) > 0 {
            tables.exit = exit;
        }
        let kinds = random
            .choice(["idle", "drains", "denied", "orphans", "both", "both"])
            .expect("kinds");
        for host in HOSTS.iter().copied() {
            if kinds == "drains" {
                if random.bool() {
                    tables.suspects.insert(host, Suspect::DRAINING);
                }
                continue;
            }
            if kinds != "orphans" && random.u8(..10) < 6 {
                tables.blame(host, random);
            }
            if matches!(kinds, "orphans" | "both") && random.u8(..10) < 4 {
                tables.terminated.insert(host, mode(random, 80));
            }
        }
        tables.configure(random);
        tables.look(kinds == "idle", random);
        tables
    }

    /// Affected Services at the address, denials behind it, and a suspect: each may be missing.
    fn blame(&mut self, addr: Addr, random: &mut Rng) {
        let flags = [
            Suspect::DENIED,
            Suspect::DENIED,
            Suspect::DENIED | Suspect::DRAINING,
            Suspect::DRAINING,
        ];
        if random.u8(..10) < 9 {
            self.suspects
                .insert(addr, random.choice(flags).expect("flags"));
        }
        for (port, protocol) in PORTS
            .into_iter()
            .flat_map(|port| TRANSPORTS.map(|number| (port, number)))
        {
            let number = random
                .choice([1, 2, 0x8000, 0x1_0000, u32::MAX])
                .expect("numbers");
            let service = ServiceNumber { number };
            if random.u8(..10) < 9 {
                self.services.insert(vip(addr, port, protocol), service);
            }
            if random.u8(..10) < 7 {
                let other = ServiceNumber { number: 77 };
                let service = if random.u8(..10) == 0 { other } else { service };
                let key = DenialKey {
                    addr,
                    service,
                    port,
                    protocol,
                    reserved: 0,
                };
                self.denied.insert(key, proof(random));
            }
        }
    }

    fn configure(&mut self, random: &mut Rng) {
        let mode_of_all = mode(random, 70);
        let modes = if random.u8(..10) < 7 {
            ReasonModes::all(Mode::Enforce)
        } else {
            let drawn = Reason::ALL.map(|_| mode(random, 40));
            ReasonModes::of_each(|reason| drawn[reason as usize])
        };
        let action = random
            .choice([
                Action::Drop,
                Action::Unset,
                Action::Reject,
                Action::Redirect,
            ])
            .expect("actions");
        self.config = Config {
            mode: mode_of_all,
            reasons: modes,
            actions: ReasonActions::all(action),
            // No answers: how many there are depends on the time.
            limits: AnswerLimits::default(),
            ..ENFORCE
        };
    }

    fn look(&mut self, idle: bool, random: &mut Rng) {
        let count = |length: usize| u32::try_from(if idle { 0 } else { length }).expect("a count");
        self.gate = random.u8(..10) > 0;
        self.view = View {
            lease_deadline_ns: if random.u8(..10) < 8 { u64::MAX } else { 1 },
            suspects: count(self.suspects.len()),
            terminated: count(self.terminated.len()),
            flows: u32::from(!idle && random.u8(..10) == 0),
            ..FRESH
        };
    }

    pub fn leased(mut self) -> Self {
        self.view.lease_deadline_ns = u64::MAX;
        self
    }

    pub fn is_fresh(&self) -> bool {
        self.view.lease_deadline_ns == u64::MAX
    }

    /// The lower of the node's mode and the reason's.
    pub fn mode(&self, reason: Reason) -> Mode {
        let own = self.config.reasons.clone().get_mut(reason).copied();
        self.config.mode.min(own.unwrap_or(Mode::Off))
    }

    pub fn action(&self, reason: Reason) -> Action {
        self.config
            .actions
            .clone()
            .get_mut(reason)
            .copied()
            .unwrap_or(Action::Unset)
    }

    /// The denial of an endpoint for a Service.
    pub fn denial(
        &self,
        ip: IpAddr,
        service: ServiceNumber,
        port: u16,
        protocol: u8,
    ) -> Option<&Denial> {
        self.denied.get(&DenialKey {
            addr: ip.into(),
            service,
            port,
            protocol,
            reserved: 0,
        })
    }

    pub fn remove(&self, rig: &mut Rig) {
        self.suspects
            .keys()
            .for_each(|key| rig.remove::<_, Keyed<Addr, Suspect>>("SUSPECTS", key));
        self.services
            .keys()
            .for_each(|key| rig.remove::<_, Keyed<Vip, ServiceNumber>>("SERVICES", key));
        self.denied
            .keys()
            .for_each(|key| rig.remove::<_, Keyed<DenialKey, RawDenial>>("DENIED", key));
        self.terminated
            .keys()
            .for_each(|key| rig.remove::<_, Keyed<Addr, Terminated>>("TERMINATED", key));
        rig.close_gate();
    }

    pub fn install(&self, rig: &mut Rig) {
        self.suspects
            .iter()
            .for_each(|(addr, flags)| rig.put_keyed("SUSPECTS", addr, suspect(*flags)));
        self.services
            .iter()
            .for_each(|(vip, service)| rig.affect(vip, *service));
        self.denied
            .iter()
            .for_each(|(key, denial)| rig.deny(key, *denial));
        self.terminated
            .keys()
            .for_each(|addr| self.unlift(rig, addr));
        self.show_exit(rig, LOOPBACK);
        rig.configure(self.config);
        rig.write_view(self.view);
        if !self.gate {
            rig.set(
                "GATE",
                Gate {
                    valid: 0,
                    ..Gates::EMPTY.first
                },
            );
        }
    }

    /// Gives the interface the role of the exit.
    pub fn show_exit(&self, rig: &mut Rig, ifindex: u32) {
        rig.put_keyed(
            "INTERFACES",
            &ifindex,
            self.exit.map(RawRole::from).unwrap_or_default(),
        );
    }

    /// Puts an orphan IP in, as one that no packet has come from.
    pub fn unlift(&self, rig: &mut Rig, addr: &Addr) {
        let mode = self.terminated[addr] as u32;
        rig.put_keyed(
            "TERMINATED",
            addr,
            Terminated {
                mode,
                ..Terminated::default()
            },
        );
        if !self.gate {
            rig.set(
                "GATE",
                Gate {
                    valid: 0,
                    ..Gates::EMPTY.first
                },
            );
        }
    }
}

fn proof(random: &mut Rng) -> Denial {
    let reasons = [Reason::DeadBackend, Reason::Reused, Reason::RetiredBackend];
    let states = [
        UidState::Dead,
        UidState::Dead,
        UidState::Retired,
        UidState::Retired,
        UidState::Live,
    ];
    let actions = [Action::Unset, Action::Unset, Action::Drop, Action::Reject];
    Denial {
        mode: mode(random, 80),
        stopped: u32::from(random.u8(..10) == 0),
        action: random.choice(actions).expect("actions"),
        ..denial(
            random.choice(reasons).expect("reasons"),
            random.choice(states).expect("states"),
        )
    }
}

/// Enforce in so many of a hundred cases.
fn mode(random: &mut Rng, enforced: u8) -> Mode {
    match random.u8(..100) {
        draw if draw < enforced => Mode::Enforce,
        draw if draw % 3 == 0 => Mode::Off,
        _ => Mode::Observe,
    }
}
