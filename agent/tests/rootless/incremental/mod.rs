//! For all events in all orders: judging only what a fact touched gives the same result as judging everything.
//!
//! Longer searches: `PROPTEST_CASES=20000 cargo test -p epguard --test rootless incremental`.

mod cluster;
mod draw;
mod half;
mod nodes;
mod relist;
mod step;

use super::state::world::{self, World};
use cluster::Cluster;
use draw::{any_step, lists};
use epguard_common::{Addr, Owner, UidState};
use epguard_core::facts::{Fact, Name, Presence, Protocol};
use epguard_core::plan::{self, Op};
use epguard_core::state::{Endpoint, Ipam, Ranges, Settings, State, Tables};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::collections::BTreeMap;
use std::time::Duration;
use step::{PODS, Step, pod_uid};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_fact_changes_only_the_endpoints_that_it_touches(
        ipam in prop_oneof![3 => Just(Ipam::Auto), 1 => Just(Ipam::Node), 1 => Just(Ipam::Cluster)],
        unsynced in prop_oneof![2 => Just(0_usize), 1 => 0..30_usize],
        part in prop_oneof![1 => Just(usize::MAX), 1 => 1..4_usize],
        first in Just(lists()).prop_shuffle(),
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut run = Run::new(ipam, part);
        let (before, after) = steps.split_at(unsynced.min(steps.len()));
        for step in before.iter().chain(&first).chain(after) {
            run.take(step)?;
            run.check()?;
        }
    }
}

/// The same sequences each time, so that no change fails for what another one did; others when asked for many.
fn config() -> Config {
    let longer = std::env::var_os("PROPTEST_CASES").is_some();
    let asked = Config::default();
    Config {
        cases: if longer { asked.cases } else { 512 },
        rng_seed: if longer { asked.rng_seed } else { RngSeed::Fixed(1) },
        failure_persistence: None,
        ..asked
    }
}

struct Run {
    world: World,
    cluster: Cluster,
    /// How much of a list is applied at a time.
    part: usize,
    /// What the maps hold, written by the plan's operations alone.
    installed: Tables,
    owners: BTreeMap<Addr, Owner>,
}

impl Run {
    fn new(ipam: Ipam, part: usize) -> Self {
        let state = State::new(Settings {
            node: "node-a".into(),
            ipam,
            ranges: Ranges::default(),
        });
        let mut world = World {
            state,
            now: Duration::from_secs(1),
        };
        world.tell(Fact::Presence(Presence::Held(vec![])));
        Self {
            world,
            cluster: Cluster::new(),
            part,
            installed: Tables::default(),
            owners: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        for fact in self.cluster.take(step) {
            self.apply(fact)?;
        }
        match step {
            Step::Wait(seconds) => {
                self.world.now += Duration::from_secs(*seconds);
                self.world.state.tick(self.world.now);
            }
            Step::Hit(number) => self.hit(*number),
            Step::Speaks(ip) => {
                let spoke = Presence::Spoke(*ip, self.world.now);
                self.world.tell(Fact::Presence(spoke));
            }
            _ => {}
        }
        self.install();
        Ok(())
    }

    /// Applies a fact in parts. In between, time passes, and each denial holds by all that is known so far.
    fn apply(&mut self, fact: Fact) -> Result<(), TestCaseError> {
        self.world.now += Duration::from_millis(10);
        self.world.state.begin(self.world.now, fact);
        while self.world.state.proceed(self.world.now, self.part) {
            self.world.state.tick(self.world.now);
            self.install();
            let fresh = self.world.state.judged_afresh(self.world.now);
            half::check_proofs(&self.world.state, &fresh)?;
        }
        Ok(())
    }

    fn install(&mut self) {
        let changes = self.world.state.take_changes();
        for op in plan::tables_at(&self.installed, self.world.state.tables(), &changes) {
            self.write(&op);
        }
        let (owners, ips) = self.world.state.take_owners(usize::MAX);
        for op in plan::owners(owners, &ips).collect::<Vec<_>>() {
            self.write(&op);
        }
    }

    fn hit(&mut self, number: usize) {
        let denied = &self.world.state.tables().denied;
        let Some(target) = denied.keys().nth(number % denied.len().max(1)).copied() else {
            return;
        };
        let socket = Endpoint {
            ip: target.addr,
            port: target.port,
            protocol: Protocol::from_number(target.protocol).expect("a protocol of a slice"),
        };
        self.world.now += Duration::from_secs(1);
        self.world.state.hit(self.world.now, target.slot, &socket);
    }

    fn write(&mut self, op: &Op) {
        match op {
            Op::RemoveOwner(ip) => drop(self.owners.remove(ip)),
            Op::PutOwner(ip, owner) => drop(self.owners.insert(*ip, *owner)),
            Op::PutTerminated(ip, _) => {
                let before = self.installed.terminated.get(ip);
                assert_eq!(before, None, "what the programs wrote is overwritten");
            }
            _ => {}
        }
        op.apply(&mut self.installed);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let state = &self.world.state;
        let mut fresh = state.judged_afresh(self.world.now);
        prop_assert_eq!(denials(state), denials(&fresh));
        prop_assert_eq!(&self.installed, fresh.tables());
        prop_assert_eq!(slots(state), slots(&fresh));
        prop_assert_eq!(absent(state), absent(&fresh), "remembers pods for nothing");
        prop_assert_eq!(&self.owners, fresh.take_owners(usize::MAX).0);
        for (service, socket, _) in state.denials() {
            prop_assert!(
                !self.is_alive(service, socket.ip),
                "{service:?} may still use {socket:?}"
            );
        }
        let orphan_ip = self.installed.terminated.iter();
        for (ip, _) in orphan_ip.filter(|(_, orphan_ip)| orphan_ip.lifted.is_none()) {
            let mut live = state.live_claimants(*ip);
            prop_assert!(live.next().is_none(), "{ip} is not vacant");
        }
        Ok(())
    }

    /// Whether a pod that the API shows live holds the IP for the Service.
    fn is_alive(&self, name: &Name, ip: Addr) -> bool {
        let service = &self.cluster.services[name];
        self.cluster.pods.values().any(|pod| {
            let holds = pod.uid_state == UidState::Live && !pod.host_network && pod.ips.contains(&ip);
            holds && service.selects(pod)
        })
    }
}

fn denials(state: &State) -> Vec<String> {
    state.denials().map(|denial| format!("{denial:?}")).collect()
}

fn slots(state: &State) -> Vec<(u16, Name)> {
    state
        .affected_services()
        .map(|(slot, name)| (slot, name.clone()))
        .collect()
}

fn absent(state: &State) -> Vec<usize> {
    (0..PODS)
        .filter(|number| state.pod_name(pod_uid(*number)).is_some())
        .collect()
}
