//! What may happen: the strategies, and a history as a value that shrinks.

use super::*;
use proptest::prelude::*;

/// One thing that happens. Numbers choose among what exists.
#[derive(Clone, Debug)]
pub enum Op {
    /// A pod object is created and bound: app, node, number of its name.
    Create(usize, usize, usize),
    /// The same, and the kubelet starts and shows it: app, node, number, choice of an IP.
    Run(usize, usize, usize, usize),
    /// The same up to the sandbox: its IP is not shown.
    Bring(usize, usize, usize, usize),
    /// The containers end, the sandbox goes, and the kubelet shows it.
    End(usize),
    /// The next thing that the pod's kubelet does; the second number chooses an IP.
    Step(usize, usize),
    /// The pod's containers end, and its sandbox goes; the API shows nothing yet.
    Finish(usize),
    /// A deletionTimestamp.
    Delete(usize),
    /// Removed from the API at once; the containers run on.
    Force(usize),
    /// PodGC writes Failed for a pod of a node that is cut off.
    PodGc(usize),
    /// An old kubelet writes Failed while the containers run.
    FailEarly(usize),
    /// The sandbox is lost; the next step of the kubelet makes another one.
    LoseSandbox(usize),
    Relabel(usize, usize),
    /// The kubelet cannot pull the image, as its status shows.
    Pull(usize),
    /// A kubelet that restarts writes over the status of a pod that has ended.
    Rewrite(usize),
    /// A node is deleted, or comes back with this range.
    Node(usize, u8),
    /// A node's clock is wrong by so many seconds from now on.
    Clock(usize, u64),
    /// A Service, or a Node after those, has this IP of the pods', or has it no more.
    Address(usize, Ip),
    /// A node loses or regains its API server.
    Cut(usize, bool),
    /// The Service's writer updates its slice.
    Sync(usize),
    /// A writer lists an IP of a pod in a slice of the Service: Service, pod, which of the ways.
    Custom(usize, usize, usize),
    DropCustom(usize),
    /// The crowd writes: in which way, how often, every so many milliseconds.
    Flood(usize, u16, u16),
    /// The pods of an app are replaced: app, node, milliseconds between the steps.
    RollOut(usize, usize, u16),
    /// Clients call every IP that is denied.
    Call,
    /// `epguard.io/mode` of a namespace.
    Annotate(usize, usize),
    /// Events of a kind come late, by so many milliseconds.
    Lag(usize, u16),
    /// Open streams of a kind show nothing.
    Stall(usize),
    /// All streams go on without delay.
    Flow,
    /// A stream ends.
    Break(usize),
    /// A stream ends, and the history behind it is gone.
    Compact(usize),
    Outage(bool),
    Backup,
    /// Back to the backup; the revision is raised, or goes back.
    Restore(bool),
    /// The agent is killed, and comes back after so many milliseconds.
    Restart(u16),
    /// The node cannot say which IPs its routes lead to, or can again.
    Netlink(bool),
}

/// What is fixed for a history.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent choices")]
pub struct Setup {
    pub ipam: Ipam,
    pub kubelets: [Kubelet; 3],
    /// Families of each node's pods.
    pub families: [usize; 3],
    /// The pods' second network: none, one that no object shows, one that annotations show, one
    /// among more than is read.
    pub networks: usize,
    /// Writers of slices follow each change of a pod.
    pub follow: bool,
    /// The kind of the pods' owner.
    pub owner: usize,
    /// The app whose pods have a host port.
    pub host_port: Option<&'static str>,
    /// Selector and writer of the Services `front` and `pg`.
    pub front: usize,
    pub pg: usize,
    /// A leader's slice is deleted while no pod leads.
    pub lapses: bool,
    /// The Service that an earlier agent has bounded to `observe`, since it denied what it should
    /// not have.
    pub convicted: Option<usize>,
    /// How many Services the namespace has that writes much; none: there is no such namespace.
    pub crowd: usize,
    /// What the agent's work costs.
    pub costs: Costs,
    /// Seconds for which everything stays as it is at the end, faults included.
    pub linger: u8,
    /// Whether the quiet after that lasts its full time, though all that is provable is denied
    /// before.
    pub patient: bool,
    /// Whether an agent that starts at the end must come to the same maps.
    pub converge: bool,
}

/// Everything that happens, with the milliseconds before it.
#[derive(Clone, Debug)]
pub struct History {
    pub setup: Setup,
    pub ops: Vec<(u16, Op)>,
}

impl History {
    /// Whether nothing but pods and writers of slices does anything.
    pub fn is_faultless(&self) -> bool {
        !self.ops.iter().any(|(_, op)| op.is_fault())
    }

    /// Within which time of quiet everything provable is denied.
    pub fn settles_within(&self) -> Duration {
        let all = self.ops.iter().map(|(_, op)| op.settles_within());
        all.max().unwrap_or(DUE)
    }
}

impl Op {
    pub const fn is_fault(&self) -> bool {
        let of_api = matches!(
            self,
            Self::Stall(_) | Self::Break(_) | Self::Compact(_) | Self::Outage(_)
        );
        of_api
            || matches!(
                self,
                Self::Lag(..) | Self::Restore(_) | Self::Restart(_) | Self::Netlink(_)
            )
    }

    /// Within which time of quiet after it everything provable is denied.
    pub const fn settles_within(&self) -> Duration {
        match self {
            Self::Compact(_) => AFTER_COMPACTION,
            op if op.is_fault() => AFTER_FAULT,
            _ => DUE,
        }
    }
}

/// Operations in a history at most.
const LENGTH: usize = 28;

pub fn histories() -> impl Strategy<Value = History> {
    let ops = prop::collection::vec((waits(), ops()), 5..LENGTH);
    (setups(), ops).prop_map(|(setup, ops)| History { setup, ops })
}

fn setups() -> impl Strategy<Value = Setup> {
    let ipam = prop_oneof![
        3 => Just(Ipam::Node),
        2 => Just(Ipam::Cluster),
        1 => Just(Ipam::ClusterDespiteRanges),
    ];
    let kubelet = || {
        prop_oneof![
            6 => Just(Kubelet::Current),
            1 => Just(Kubelet::Old),
            1 => Just(Kubelet::OneBinary),
        ]
    };
    let last = prop_oneof![3 => kubelet(), 1 => Just(Kubelet::Virtual)];
    let families = || prop_oneof![6 => Just(0usize), 1 => Just(1), 3 => Just(2)];
    let families = prop_oneof![4 => Just([0; 3]), 1 => [families(), families(), families()]];
    let networks = prop_oneof![5 => Just(0usize), 1 => Just(1), 1 => 2usize..4];
    let front = prop_oneof![4 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let pg = prop_oneof![3 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let writers = (front, pg, prop::bool::weighted(0.3));
    let linger = prop_oneof![2 => Just(0u8), 1 => 5u8..20];
    let ends = (
        linger,
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.05),
    );
    let host_port =
        prop_oneof![4 => Just(None), 1 => prop::sample::select(vec![Some("web"), Some("api")])];
    let pods = (families, networks, 0..OWNERS.len(), host_port);
    let kubelets = (kubelet(), kubelet(), last);
    let crowd = prop_oneof![5 => Just(0usize), 1 => 1usize..7];
    let convicted = prop_oneof![9 => Just(None), 1 => (0usize..4).prop_map(Some)];
    let ends = (ends, costs(), crowd, convicted);
    let all = (
        ipam,
        kubelets,
        pods,
        prop::bool::weighted(0.7),
        writers,
        ends,
    );
    all.prop_map(
        |(
            ipam,
            (a, b, c),
            (families, networks, owner, host_port),
            follow,
            (front, pg, lapses),
            ((linger, patient, converge), costs, crowd, convicted),
        )| {
            Setup {
                ipam,
                kubelets: [a, b, c],
                families,
                networks,
                follow,
                owner,
                host_port,
                front,
                pg,
                lapses,
                convicted,
                crowd,
                costs,
                linger,
                patient,
                converge,
            }
        },
    )
}

/// Mostly nothing. Else pieces are small, and a turn takes 5 to 300 ms; or each message takes long.
fn costs() -> impl Strategy<Value = Costs> {
    let costs = |message, step, piece| Costs {
        message: Duration::from_micros(message),
        step: Duration::from_millis(step),
        piece,
    };
    let steps = (prop::sample::select(vec![5, 20, 60]), 1usize..4);
    let slow = (
        prop::sample::select(vec![2_000, 20_000, 100_000]),
        5u64..200,
        1usize..4,
    );
    prop_oneof![
        6 => Just(Costs::NONE),
        2 => steps.prop_map(move |(step, piece)| costs(50, step, piece)),
        1 => slow.prop_map(move |(message, step, piece)| costs(message, step, piece)),
    ]
}

/// Milliseconds before an operation.
fn waits() -> impl Strategy<Value = u16> {
    prop_oneof![3 => Just(0u16), 3 => 1u16..300, 3 => 300u16..3_000, 1 => 3_000u16..15_000]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        36 => pods(),
        7 => writers(),
        5 => api(),
        2 => agent(),
    ]
}

fn pods() -> impl Strategy<Value = Op> {
    let pod = || 0usize..4;
    let node = || prop_oneof![7 => Just(0usize), 2 => Just(1), 1 => Just(2)];
    prop_oneof![
        6 => (0usize..3, node(), 0usize..2).prop_map(|(app, node, number)| Op::Create(app, node, number)),
        8 => (0usize..3, node(), 0usize..2, 0usize..2).prop_map(|(app, node, number, ip)| Op::Run(app, node, number, ip)),
        4 => (0usize..3, node(), 0usize..2, 0usize..2).prop_map(|(app, node, number, ip)| Op::Bring(app, node, number, ip)),
        8 => pod().prop_map(Op::End),
        14 => (pod(), 0usize..2).prop_map(|(pod, ip)| Op::Step(pod, ip)),
        5 => pod().prop_map(Op::Finish),
        3 => pod().prop_map(Op::Delete),
        1 => pod().prop_map(Op::Force),
        1 => pod().prop_map(Op::PodGc),
        1 => pod().prop_map(Op::FailEarly),
        2 => pod().prop_map(Op::LoseSandbox),
        3 => pod().prop_map(Op::Pull),
        1 => pod().prop_map(Op::Rewrite),
        1 => (pod(), 0usize..3).prop_map(|(pod, app)| Op::Relabel(pod, app)),
        1 => (0usize..3, any::<bool>()).prop_map(|(node, cut)| Op::Cut(node, cut)),
        2 => (1usize..3, 2u8..4).prop_map(|(node, range)| Op::Node(node, range)),
        1 => (0usize..3, prop::sample::select(vec![0, 1_000, 2_000])).prop_map(|(node, wrong)| Op::Clock(node, wrong)),
    ]
}

fn writers() -> impl Strategy<Value = Op> {
    let service = || 0usize..4;
    prop_oneof![
        8 => service().prop_map(Op::Sync),
        2 => (service(), 0usize..4, 0..HANDS).prop_map(|(service, pod, how)| Op::Custom(service, pod, how)),
        1 => (0usize..7, 1u8..3, 0usize..2).prop_map(|(owner, range, at)| Op::Address(owner, Cluster::range(range)[at])),
        1 => service().prop_map(|service| Op::Address(service, OWN_ADDRESS)),
        1 => service().prop_map(Op::DropCustom),
        3 => Just(Op::Call),
        3 => (0..FLOODS, 5u16..60, 20u16..300).prop_map(|(how, times, every)| Op::Flood(how, times, every)),
        2 => (0usize..3, 0usize..2, 10u16..3_000).prop_map(|(app, node, pace)| Op::RollOut(app, node, pace)),
        1 => (0usize..2, 0usize..3).prop_map(|(namespace, mode)| Op::Annotate(namespace, mode)),
    ]
}

fn api() -> impl Strategy<Value = Op> {
    let kind =
        || prop_oneof![6 => Just(0usize), 4 => Just(1), 2 => Just(3), 1 => Just(2), 1 => Just(4)];
    prop_oneof![
        2 => (kind(), 1u16..2_000).prop_map(|(kind, lag)| Op::Lag(kind, lag)),
        4 => kind().prop_map(Op::Stall),
        3 => Just(Op::Flow),
        2 => kind().prop_map(Op::Break),
        2 => kind().prop_map(Op::Compact),
        1 => any::<bool>().prop_map(Op::Outage),
        6 => Just(Op::Backup),
        6 => prop::bool::weighted(0.3).prop_map(Op::Restore),
    ]
}

fn agent() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0u16..20_000).prop_map(Op::Restart),
        1 => any::<bool>().prop_map(Op::Netlink),
    ]
}
