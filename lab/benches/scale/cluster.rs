//! An API server with a whole cluster, and the agent beside it.

use super::agent::{Agent, Cgroup};
use super::background::Changes;
use super::objects::{self, Objects, Pod, State};
use super::requests::{self, as_f64, octets};
use super::size::{self, BIG, Size};
use crate::world::World;
use epguard_core::facts::Watched;
use epguard_lab::api::{Kind, ObjectRef, Store};
use nix::libc;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Services of Jobs, and the pods of each.
pub(crate) const JOBS: u32 = 5;
pub(crate) const JOB_PODS: u32 = 4;
/// Pods that change in turn. They are of many Services and nodes.
const CHANGING: u32 = 1_000;
/// Between two looks at the agent, which cost it some processor time.
const LOOK: Duration = Duration::from_millis(20);

/// Dropped in this order: the agent before its cgroup.
pub(crate) struct Cluster {
    pub(crate) agent: Agent,
    pub(crate) world: World,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) size: Size,
    pub(crate) objects: Objects,
}

/// What the agent has used in a time.
pub(crate) struct Used {
    /// The time, in seconds.
    pub(crate) time: f64,
    /// Seconds of a processor.
    pub(crate) processor: f64,
    pub(crate) requests: f64,
    /// Kilobytes of all answers, and of those with slices and Services, which kube-proxy reads as
    /// well.
    pub(crate) kilobytes: f64,
    pub(crate) shown: f64,
}

impl Cluster {
    /// Makes the objects, then starts the agent. Returns what it has used until it was synced.
    pub(crate) fn start(size: Size) -> (Self, Used) {
        let mut world = World::new("scale");
        let objects = Objects::new(size);
        fill(&world.store, &objects, size);
        let cgroup = Cgroup::new();
        let kubeconfig = world.server.kubeconfig();
        let begun = Instant::now();
        world.start_as(&kubeconfig, &[], |command| {
            if let Some(cgroup) = &cgroup {
                cgroup.hold(command);
            }
            at_own_priority(command);
        });
        let agent = Agent::of(&world);
        agent.until(LOOK, "synced", |status| status.synced);
        let time = begun.elapsed().as_secs_f64();
        let cluster = Self {
            agent,
            world,
            cgroup,
            size,
            objects,
        };
        let used = Used {
            time,
            ..cluster.total()
        };
        (cluster, used)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.world.store
    }

    /// What the agent uses meanwhile.
    pub(crate) fn used(&self, meanwhile: impl FnOnce()) -> Used {
        let begun = Instant::now();
        let before = self.total();
        meanwhile();
        let after = self.total();
        Used {
            time: begun.elapsed().as_secs_f64(),
            processor: after.processor - before.processor,
            requests: after.requests - before.requests,
            kilobytes: after.kilobytes - before.kilobytes,
            shown: after.shown - before.shown,
        }
    }

    /// What it has used so far, in no time.
    fn total(&self) -> Used {
        let asked = requests::asked(&self.world.server.api.audit);
        let shown = asked
            .iter()
            .filter(|asked| ["endpointslices", "services"].contains(&asked.resource));
        Used {
            time: 0.0,
            processor: self.agent.processor(),
            requests: as_f64(asked.len() as u64),
            kilobytes: octets(&asked) / 1e3,
            shown: octets(shown) / 1e3,
        }
    }

    /// Writes a pod.
    pub(crate) fn pod(&self, pod: Pod, state: State) {
        self.store().apply(self.objects.pod(pod, state)).unwrap();
    }

    /// Removes a pod.
    pub(crate) fn remove(&self, pod: Pod) {
        let target = ObjectRef::pod(&size::namespace(pod.service), &objects::name(pod));
        self.store().remove(&target).unwrap();
    }

    /// Changes pods that nothing depends on, this many times a second: a condition of a pod changes
    /// its time.
    pub(crate) fn change(&self, per_second: u32) -> Changes {
        // The last pods: others die in other rows.
        let last = (1..=CHANGING).map(|back| self.size.pods - back);
        let pods = last.filter(|number| *number >= BIG);
        let mut pods: Vec<Value> = pods
            .map(|pod| self.objects.pod(self.objects.own(pod), State::Running))
            .collect();
        let store = self.store().clone();
        Changes::start(per_second, move |made| {
            let index = usize::try_from(made).unwrap() % pods.len();
            let minutes = made / 60 % 60;
            let seconds = made % 60;
            pods[index]["status"]["conditions"][2]["lastProbeTime"] =
                format!("2026-11-21T02:{minutes:02}:{seconds:02}Z").into();
            store.apply(pods[index].clone()).unwrap();
        })
    }

    /// A pod of a Service of Jobs.
    pub(crate) fn job(&self, round: u32, pod: u32) -> Pod {
        job(self.size, round, pod)
    }

    /// Waits until the agent has all changes so far in its maps.
    pub(crate) fn until_applied(&self) {
        for (kind, watched) in [
            (Kind::Pod, Watched::Pods),
            (Kind::EndpointSlice, Watched::EndpointSlices),
        ] {
            let version = self.store().resource_version(kind);
            let wanted = |status: &epguard::shared::status::Status| {
                status
                    .applied
                    .get(&watched)
                    .is_some_and(|applied| *applied >= version)
            };
            self.agent.until(LOOK, "up to date", wanted);
        }
    }
}

/// Undoes the low priority of this process: the agent competes with an API server on this machine,
/// and not on a node.
fn at_own_priority(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: the closure makes one system call without pointers, and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::setpriority(libc::PRIO_PROCESS, 0, 0);
            Ok(())
        });
    }
}

/// Makes all objects of the beginning.
fn fill(store: &Store, objects: &Objects, size: Size) {
    let apply = |object| drop(store.apply(object).unwrap());
    size::namespaces().for_each(|name| store.ensure_namespace(&name).unwrap());
    (0..size.nodes).for_each(|node| apply(objects.node(node)));
    (0..size.services).for_each(|service| apply(objects.service(service)));
    objects.pods().chain(objects.slices()).for_each(apply);
    for round in 0..JOBS {
        let pods: Vec<Pod> = (0..JOB_PODS).map(|pod| job(size, round, pod)).collect();
        apply(objects.service(pods[0].service));
        for pod in &pods {
            apply(objects.pod(*pod, State::Running));
        }
        let listed: Vec<_> = pods
            .iter()
            .map(|pod| (pod.number, State::Running))
            .collect();
        apply(objects.slice(pods[0].service, 0, &listed));
    }
}

/// A pod of a Service of Jobs. Their numbers follow those of the pods that a rolling update makes.
fn job(size: Size, round: u32, pod: u32) -> Pod {
    Pod {
        number: size.pods + BIG + round * JOB_PODS + pod,
        service: size.services + round,
    }
}
