//! The denials of the agent: its pinned maps, with names from its status.

use super::finding::State;
use crate::commands::dump::{denials, keyed, services};
use crate::shared::status::Status;
use anyhow::Result;
use epguard_common::{Addr, Denial, Reason, ServiceNumber, Terminated, Uid, UidState};
use epguard_core::facts::Protocol;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Everything that flows are compared with.
#[derive(Debug, Default)]
pub struct Known {
    /// The addresses of Services that have a denial.
    pub services: BTreeMap<(SocketAddr, Protocol), ServiceNumber>,
    /// The proofs about an endpoint, by Service.
    pub denied: BTreeMap<(SocketAddr, Protocol), Vec<Denied>>,
    /// Orphan IPs: IPs of dead pods that are unused on this node.
    pub terminated: BTreeMap<IpAddr, Proof>,
}

/// An endpoint of a Service whose pod has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Its number in the maps.
    pub number: ServiceNumber,
    /// `namespace/name`.
    pub service: String,
    /// The proof of the denial.
    pub proof: Proof,
}

/// The proof that a pod has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The reason.
    pub reason: Reason,
    /// How sure the proof is.
    pub state: State,
    /// The UID of the pod that is meant.
    pub dead: Uid,
    /// Its `namespace/name`.
    pub meant: String,
    /// The pod that has the IP now.
    pub hit: Option<String>,
}

impl Known {
    /// Reads the pinned maps. Errors: no datapath is pinned there.
    pub fn read(pin_dir: &Path, status: &Status) -> Result<Self> {
        let mut known = Self::default();
        for (vip, number) in services(pin_dir)? {
            let at = at(vip.addr, vip.port, vip.protocol);
            known.services.extend(at.map(|at| (at, number)));
        }
        for (target, denial) in denials(pin_dir)? {
            if let Some(at) = at(target.addr, target.port, target.protocol) {
                let denied = denied(target.service, &denial, status);
                known.denied.entry(at).or_default().push(denied);
            }
        }
        for (addr, terminated) in keyed::<Addr, Terminated>(pin_dir, "TERMINATED")? {
            if terminated.lifted_ns == 0 {
                let proof = proof(Reason::Terminated, State::Stale, terminated.dead_uid, status);
                known.terminated.insert(addr.ip(), proof);
            }
        }
        Ok(known)
    }

    /// The denial of an endpoint of that Service. The new owner of a dead pod's IP may be the right destination: of an unknown
    /// Service an IP with a new owner has no finding.
    #[must_use]
    pub fn denied(
        &self,
        endpoint: SocketAddr,
        protocol: Protocol,
        service: Option<ServiceNumber>,
    ) -> Option<&Denied> {
        let mut all = self.denied.get(&(endpoint, protocol))?.iter();
        all.find(|denied| match service {
            Some(number) => denied.number == number,
            None => denied.proof.reason != Reason::Reused,
        })
    }

    /// The number of endpoints and IPs with a denial.
    #[must_use]
    pub fn endpoints(&self) -> usize {
        self.denied.len() + self.terminated.len()
    }
}

fn at(addr: Addr, port: u16, protocol: u8) -> Option<(SocketAddr, Protocol)> {
    Some((SocketAddr::new(addr.ip(), port), Protocol::from_number(protocol)?))
}

fn denied(number: ServiceNumber, denial: &Denial, status: &Status) -> Denied {
    let state = match denial.uid_state {
        _ if denial.held != 0 => State::Held,
        UidState::Dead => State::Stale,
        _ => State::AllowedToEnd,
    };
    let owner = denial.owner_uid;
    Denied {
        number,
        service: status.service_or_number(number),
        proof: Proof {
            hit: (owner != Uid::NONE).then(|| status.pod(owner)),
            ..proof(denial.reason, state, denial.dead_uid, status)
        },
    }
}

fn proof(reason: Reason, state: State, dead: Uid, status: &Status) -> Proof {
    Proof {
        reason,
        state,
        dead,
        meant: status.pod(dead),
        hit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::{Action, Mode};

    fn denial(reason: Reason, uid_state: UidState, held: u32) -> Denial {
        Denial {
            dead_uid: Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5e0").unwrap(),
            owner_uid: Uid::NONE,
            boot_id: Uid::NONE,
            reason,
            uid_state,
            mode: Mode::Enforce,
            held,
            action: Action::Unset,
        }
    }

    #[test]
    fn only_endpoints_that_are_proven_dead_are_stale() {
        let state = |reason, uid_state, held| {
            let denial = denial(reason, uid_state, held);
            denied(ServiceNumber { number: 9 }, &denial, &Status::default())
                .proof
                .state
        };
        assert_eq!(state(Reason::DeadBackend, UidState::Dead, 0), State::Stale);
        assert_eq!(state(Reason::Reused, UidState::Dead, 0), State::Stale);
        assert_eq!(state(Reason::Reused, UidState::Retired, 0), State::AllowedToEnd);
        assert_eq!(
            state(Reason::RetiredBackend, UidState::Retired, 0),
            State::AllowedToEnd
        );
        assert_eq!(state(Reason::DeadBackend, UidState::Dead, 1), State::Held);
    }

    #[test]
    fn findings_use_the_agents_names_or_else_numbers() {
        let denial = denial(Reason::DeadBackend, UidState::Dead, 0);
        let number = ServiceNumber { number: 7 };
        let unnamed = denied(number, &denial, &Status::default());
        assert_eq!(unnamed.service, "Service 7");
        assert_eq!(unnamed.proof.meant, denial.dead_uid.to_string());
        assert_eq!(unnamed.proof.hit, None);
        let status = Status {
            pods: [(denial.dead_uid.to_string(), "shop/a".into())].into(),
            services: [("7".into(), "shop/web".into())].into(),
            ..Status::default()
        };
        let named = denied(number, &denial, &status);
        assert_eq!(
            (named.service.as_str(), named.proof.meant.as_str()),
            ("shop/web", "shop/a")
        );
    }
}
