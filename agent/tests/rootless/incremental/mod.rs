//! For all events in all orders: judging only what a fact touched gives the same result as judging everything.
//!
//! Longer searches: `PROPTEST_CASES=20000 cargo test -p epguard --test rootless incremental`.

mod cluster;
mod draw;
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
        first in Just(lists()).prop_shuffle(),
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut run = Run::new(ipam);
        let (before, after) = steps.split_at(unsynced.min(steps.len()));
        for step in before.iter().chain(&first).chain(after) {
            run.take(step);
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
    /// What the maps hold, written by the plan's operations alone.
    installed: Tables,
    owners: BTreeMap<Addr, Owner>,
}

impl Run {
    fn new(ipam: Ipam) -> Self {
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
            installed: Tables::default(),
            owners: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        for fact in self.cluster.take(step) {
            self.world.tell(fact);
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
        for op in plan::tables(&self.installed, self.world.state.tables()) {
            self.write(op);
        }
        let (owners, changed) = self.world.state.take_owners();
        for op in plan::owners(owners, &changed).collect::<Vec<_>>() {
            self.write(op);
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

    fn write(&mut self, op: Op) {
        match op {
            Op::RemoveDenial(key) => drop(self.installed.denied.remove(&key)),
            Op::RemoveSuspect(key) => drop(self.installed.suspects.remove(&key)),
            Op::RemoveService(key) => drop(self.installed.services.remove(&key)),
            Op::PutDenial(key, denial) => drop(self.installed.denied.insert(key, denial)),
            Op::PutService(key, slot) => drop(self.installed.services.insert(key, slot)),
            Op::PutSuspect(key, suspect) => drop(self.installed.suspects.insert(key, suspect)),
            Op::RemoveTerminated(ip) => drop(self.installed.terminated.remove(&ip)),
            Op::PutTerminated(ip, uid) => {
                let before = self.installed.terminated.insert(ip, uid);
                assert_eq!(before, None, "what the programs wrote is overwritten");
            }
            Op::RemoveBackends(key) => drop(self.installed.backends.remove(&key)),
            Op::PutBackends(key, backends) => drop(self.installed.backends.insert(key, *backends)),
            Op::RemoveOwner(ip) => drop(self.owners.remove(&ip)),
            Op::PutOwner(ip, owner) => drop(self.owners.insert(ip, owner)),
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let state = &self.world.state;
        let mut fresh = state.judged_afresh(self.world.now);
        prop_assert_eq!(denials(state), denials(&fresh));
        prop_assert_eq!(&self.installed, fresh.tables());
        prop_assert_eq!(slots(state), slots(&fresh));
        prop_assert_eq!(absent(state), absent(&fresh), "remembers pods for nothing");
        prop_assert_eq!(&self.owners, fresh.take_owners().0);
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
