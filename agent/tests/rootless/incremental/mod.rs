//! For all events in all orders: judging only what a fact touched gives the same result as judging
//! everything.
//!
//! Longer searches: `PROPTEST_CASES=20000 cargo test -p epguard --test rootless incremental`.

mod cluster;
mod draw;
mod half;
mod restart;
mod step;

use super::state::*;
use cluster::*;
use draw::service;
use draw::*;
use half::Before;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use restart::Maps;
use std::collections::BTreeMap;
use step::*;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_fact_changes_only_the_endpoints_that_it_touches(
        ipam in prop_oneof![3 => Just(Ipam::Auto), 1 => Just(Ipam::Node), 1 => Just(Ipam::Cluster)],
        unsynced in prop_oneof![2 => Just(0_usize), 1 => 0..30_usize],
        part in prop_oneof![1 => Just(usize::MAX), 1 => 1..4_usize],
        piece in prop_oneof![1 => Just(usize::MAX), 2 => 1..4_usize],
        first in Just(lists()).prop_shuffle(),
        between in prop::collection::vec(prop::option::of(any_fact()), 0..8),
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut run = Run::new(ipam, part, piece, between);
        let (before, after) = steps.split_at(unsynced.min(steps.len()));
        for step in before.iter().chain(&first).chain(after) {
            run.take(step)?;
            run.check()?;
        }
    }
}

/// The same sequences each time, so that no change fails for what another one did; others when
/// asked for many.
pub fn config() -> Config {
    let longer = std::env::var_os("PROPTEST_CASES").is_some();
    let asked = Config::default();
    Config {
        cases: if longer { asked.cases } else { 512 },
        rng_seed: if longer {
            asked.rng_seed
        } else {
            RngSeed::Fixed(1)
        },
        failure_persistence: None,
        ..asked
    }
}

struct Run {
    world: World,
    cluster: Cluster,
    /// How much of a list is applied at a time.
    part: usize,
    /// How much is judged at a time.
    piece: usize,
    /// What happens while a fact is applied and judged, over and over.
    between: Vec<Option<Step>>,
    steps: usize,
    maps: Maps,
    settings: Settings,
}

impl Run {
    fn new(ipam: Ipam, part: usize, piece: usize, between: Vec<Option<Step>>) -> Self {
        let settings = Settings {
            node: "node-a".into(),
            ipam,
            ranges: Ranges::default(),
        };
        let state = State::new(settings.clone()).with_piece(piece);
        let mut world = World {
            state,
            now: Duration::from_secs(1),
        };
        world.tell(routes_to(&[]));
        let cluster = Cluster::new();
        let maps = Maps::default();
        Self {
            world,
            cluster,
            part,
            piece,
            between,
            steps: 0,
            maps,
            settings,
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        if let Step::Gap(unseen, lists) = step {
            for step in unseen {
                self.cluster.take(step);
            }
            // Each shows what the API holds by then.
            return lists.iter().try_for_each(|list| self.take(list));
        }
        for fact in self.facts(step) {
            self.apply(fact)?;
        }
        match step {
            Step::Wait(seconds) => {
                self.world.now += Duration::from_secs(*seconds);
                self.world.state.tick(self.world.now);
            }
            Step::Hit(number) => self.hit(*number),
            Step::Restart(lists) => self.restart(self.settings.clone(), lists)?,
            _ => {}
        }
        self.maps.install(&mut self.world.state);
        Ok(())
    }

    fn facts(&mut self, step: &Step) -> Vec<Fact> {
        match step {
            Step::Speaks(ip) => vec![Fact::Presence(Presence::Spoke(*ip, self.world.now))],
            Step::NodeSeen(number) => {
                let at = self.world.now;
                let seen = |node: &Node| {
                    Fact::NodeSeen(NodeSeen {
                        name: node.name.clone(),
                        uid: node.uid,
                        at,
                    })
                };
                self.cluster
                    .nodes
                    .get(node_name(*number))
                    .map(seen)
                    .into_iter()
                    .collect()
            }
            step => self.cluster.take(step),
        }
    }

    /// Applies a fact, and judges what it concerns, in parts. In between, time passes, other facts
    /// come, and the maps are written.
    fn apply(&mut self, fact: Fact) -> Result<(), TestCaseError> {
        self.world.now += Duration::from_millis(10);
        let mut before = Before::list(&fact, self.world.state.tables());
        self.world.state.begin_fact(self.world.now, fact);
        self.check_part(&before)?;
        let mut others = self.between.len();
        while self.world.state.run_step(self.world.now, self.part) {
            self.check_part(&before)?;
            self.world.state.begin_tick(self.world.now);
            self.check_part(&before)?;
            if others > 0 {
                others -= 1;
                self.apply_other(&mut before)?;
            }
        }
        Ok(())
    }

    /// Whatever waits, what is in force holds by all that is known.
    fn check_part(&mut self, before: &Before) -> Result<(), TestCaseError> {
        self.maps.install(&mut self.world.state);
        let state = &self.world.state;
        if state.is_half_applied() {
            before.check(state.tables())?;
        }
        let fresh = state.judged_afresh(self.world.now);
        half::check_proofs(state, &fresh)
    }

    /// Applies the next fact that comes while another one is applied.
    fn apply_other(&mut self, before: &mut Before) -> Result<(), TestCaseError> {
        let step = self.between.get(self.steps % self.between.len()).cloned();
        self.steps += 1;
        for fact in step
            .flatten()
            .map(|step| self.facts(&step))
            .into_iter()
            .flatten()
        {
            // The facts of a watch come in its order.
            while Watched::of(&fact).is_some_and(|watched| self.world.state.is_applying(watched)) {
                self.world.state.run_step(self.world.now, self.part);
                self.check_part(before)?;
            }
            let state = &mut self.world.state;
            if state.is_half_applied() {
                before.note(&fact);
            } else {
                *before = Before::list(&fact, state.tables());
            }
            state.begin_fact(self.world.now, fact);
            self.check_part(before)?;
        }
        Ok(())
    }

    fn hit(&mut self, number: usize) {
        let denied = &self.world.state.tables().denied;
        let Some(target) = denied.keys().nth(number % denied.len().max(1)).copied() else {
            return;
        };
        let socket = Endpoint {
            ip: target.addr,
            port: target.port,
            protocol: Protocol::from_repr(target.protocol).expect("a protocol of a slice"),
        };
        self.world.now += Duration::from_secs(1);
        self.world
            .state
            .hit(self.world.now, target.service, &socket);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let state = &self.world.state;
        let mut fresh = state.judged_afresh(self.world.now);
        prop_assert_eq!(denials(state), denials(&fresh));
        prop_assert_eq!(state.tables(), fresh.tables());
        prop_assert_eq!(numbers(state), numbers(&fresh));
        prop_assert_eq!(absent(state), absent(&fresh), "remembers pods for nothing");
        if state.is_synced() {
            prop_assert_eq!(&self.maps.tables, fresh.tables());
            let (owners, _) = fresh.take_owners(usize::MAX);
            prop_assert!(self.maps.owners.iter().eq(owners.iter()));
        }
        for (service, socket, _) in state.denials() {
            prop_assert!(
                !self.is_alive(service, socket.ip),
                "{service:?} may still use {socket:?}"
            );
        }
        let orphan_ip = self.maps.tables.terminated.iter();
        for (ip, _) in orphan_ip.filter(|(_, orphan_ip)| orphan_ip.lifted.is_none()) {
            let mut live = state.live_claimants(*ip);
            prop_assert!(live.next().is_none(), "{ip} is not vacant");
            let services = self
                .cluster
                .services
                .values()
                .flat_map(|service| &service.vips);
            let nodes = self.cluster.nodes.values().flat_map(|node| &node.addresses);
            let mut taken = services.chain(nodes).chain(&self.cluster.local);
            prop_assert!(
                !state.is_synced() || taken.all(|taken| taken != ip),
                "{ip} is no pod's"
            );
        }
        Ok(())
    }

    /// Whether a pod that the API shows live holds the IP for the Service.
    fn is_alive(&self, name: &ObjectName, ip: Addr) -> bool {
        let service = &self.cluster.services[name];
        let slices = self.cluster.slices.values();
        let own: Vec<_> = slices
            .filter(|slice| slice.service.as_ref() == Some(name))
            .collect();
        let listed: Vec<_> = own.iter().flat_map(|slice| &slice.endpoints).collect();
        let has_foreign = own.iter().any(|slice| {
            slice.foreign
                && slice
                    .endpoints
                    .iter()
                    .any(|endpoint| endpoint.target.is_some())
        });
        let mut pods = listed
            .iter()
            .filter_map(|endpoint| self.cluster.pods.get(&endpoint.target?));
        let proves_nothing =
            service.selector.is_none() || has_foreign || pods.any(|pod| !service.selects(pod));
        let is_of_namespace = |pod: &Pod| {
            proves_nothing
                && own
                    .iter()
                    .any(|slice| slice.namespaces.contains(&pod.name.namespace))
        };
        self.cluster.pods.values().any(|pod| {
            let holds =
                pod.uid_state == UidState::Live && !pod.host_network && pod.ips.contains(&ip);
            let is_listed = listed
                .iter()
                .any(|endpoint| endpoint.target == Some(pod.uid));
            holds && (service.selects(pod) || is_listed || is_of_namespace(pod))
        })
    }
}

fn denials(state: &State) -> Vec<String> {
    state
        .denials()
        .map(|denial| format!("{denial:?}"))
        .collect()
}

fn numbers(state: &State) -> BTreeMap<ServiceNumber, ObjectName> {
    state
        .numbers()
        .iter()
        .map(|(name, number)| (number, name.clone()))
        .collect()
}

fn absent(state: &State) -> Vec<usize> {
    (0..PODS)
        .filter(|number| state.pod_name(pod_uid(*number)).is_some())
        .collect()
}
