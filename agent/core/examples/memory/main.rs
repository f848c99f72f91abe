//! Memory of the agent's facts by kind of object: `cargo run --release -p epguard-core --example memory [PODS]`.
//!
//! Live octets are those that the code asked for; the resident set also has the allocator's share. All objects are read
//! from JSON as the API server sends it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "an example may panic")]

mod allocator;
#[path = "../objects/mod.rs"]
mod objects;

use epguard_core::facts::{Change, Fact, Pod, Service, Slice, SliceEndpoint};
use epguard_core::history::History;
use epguard_core::state::{EndpointIndex, Ipam, Listing, PodIndex, Ranges, Record, Settings, State};
use objects::{Objects, ServiceShape, Shape};
use std::time::Duration;
use std::{env, fs, hint};

/// Pods of a Deployment, which one Service selects, and how many of them a slice lists.
const REPLICAS: usize = 10;
const LISTED: usize = 5;

/// Of all pods, one in so many is replaced in the last step.
const REPLACED: usize = 10;

/// A list of all objects of a kind.
type List = fn(&Objects) -> Fact;

fn main() {
    let pods: usize = env::args()
        .nth(1)
        .map_or(100_000, |pods| pods.parse().expect("a number of pods"));
    let service = ServiceShape {
        pods: REPLICAS,
        pods_per_slice: LISTED,
    };
    let cluster = Objects::new(Shape {
        nodes: pods.div_ceil(100),
        namespaces: pods.div_ceil(100),
        pods,
        first: service,
        others: service,
        // The last step measures reuse.
        keeps_ips: true,
    });
    println!(
        "sizes: Pod {}, Record {}, Service {}, Slice {}, SliceEndpoint {}, Listing {}\n",
        size_of::<Pod>(),
        size_of::<Record>(),
        size_of::<Service>(),
        size_of::<Slice>(),
        size_of::<SliceEndpoint>(),
        size_of::<Listing>()
    );
    println!(
        "{:<44}{:>9}{:>12}{:>12}{:>12}{:>12}",
        "", "of", "octets each", "live KB", "peak KB", "resident KB"
    );
    single(&cluster, pods);
    state(&cluster, pods);
}

/// Objects and single indexes, without a state.
fn single(cluster: &Objects, pods: usize) {
    let now = Duration::from_secs(1);
    let all = step("objects: pods", pods, || cluster.pods(0));
    let mut index = PodIndex::default();
    step("index of pods, the objects included", pods, || {
        index.apply(now, Change::Reset(cluster.pods(0))).len()
    });
    drop((all, index));
    let all = step("objects: slices, per endpoint", pods, || cluster.slices(0));
    let mut index = EndpointIndex::default();
    step("index of endpoints, the objects included", pods, || {
        index.apply(now, Change::Reset(cluster.slices(0))).pairs.len()
    });
    drop((all, index));
    let _all = step("objects: services", pods / 10, || cluster.services());
}

/// All facts together, as the agent receives them.
fn state(cluster: &Objects, pods: usize) {
    let settings = Settings {
        node: "node".into(),
        ipam: Ipam::Auto,
        ranges: Ranges::default(),
    };
    let (mut state, mut history) = (State::new(settings), History::default());
    let mut now = Duration::from_secs(1);
    let mut apply = |fact| {
        now += Duration::from_millis(1);
        state.apply(now, fact);
        state.take_owners(usize::MAX);
        state.take_reuse_gaps();
        history.note(now, 1, &mut state);
    };
    println!();
    let lists: [(&str, usize, List); 7] = [
        ("state: nodes", pods / 100, |c| {
            Fact::Node(Change::Reset(c.nodes()))
        }),
        ("state: namespaces", pods / 100, |c| {
            Fact::Namespace(Change::Reset(c.namespaces()))
        }),
        ("state: services", pods / 10, |c| {
            Fact::Service(Change::Reset(c.services()))
        }),
        ("state: pods", pods, |c| Fact::Pod(Change::Reset(c.pods(0)))),
        ("state: slices, per endpoint", pods, |c| {
            Fact::Slice(Change::Reset(c.slices(0)))
        }),
        ("state: pods listed again", pods, |c| {
            Fact::Pod(Change::Reset(c.pods(0)))
        }),
        ("state: slices listed again", pods, |c| {
            Fact::Slice(Change::Reset(c.slices(0)))
        }),
    ];
    for (title, count, list) in lists {
        step(title, count, || apply(list(cluster)));
    }
    step("state: one of ten pods replaced", pods / REPLACED, || {
        // By Services, as rolling updates do.
        for first in (0..pods / REPLACED).step_by(LISTED) {
            let own = first..first + LISTED;
            for pod in own.clone() {
                let deleting = true;
                apply(Fact::Pod(Change::Deleted(Pod {
                    deleting,
                    ..cluster.pod(pod, 0)
                })));
                apply(Fact::Pod(Change::Applied(cluster.pod(pod, 1))));
            }
            apply(Fact::Slice(Change::Applied(cluster.slice(own, 1))));
        }
    });
    hint::black_box((state, history));
}

/// Runs a step and prints what it left allocated.
fn step<T>(title: &str, count: usize, work: impl FnOnce() -> T) -> T {
    let before = allocator::live();
    allocator::restart_peak();
    let result = work();
    let (live, peak) = (allocator::live(), allocator::peak());
    let each = (live.cast_signed() - before.cast_signed()) / count.cast_signed();
    println!(
        "{title:<44}{count:>9}{each:>12}{:>12}{:>12}{:>12}",
        live / 1024,
        peak / 1024,
        resident()
    );
    result
}

/// KB, as the kernel counts them.
fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or_default().trim().trim_end_matches(" kB").to_owned()
}
