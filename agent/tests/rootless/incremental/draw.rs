//! Draws what happens, one step after another.

use super::*;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

pub fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        86 => any_change_of_the_api(),
        5 => any_node_fact(),
        4 => (any_kind(), prop_oneof![2 => Just(0), 2 => (0..8_u32).prop_map(|bit| 1_u8 << bit), 1 => any::<u8>()])
            .prop_map(|(kind, gone)| Step::Relist(kind, gone)),
        4 => (select(vec![Watched::Pods, Watched::EndpointSlices]), 0..24_usize, prop_oneof![2 => Just(0), 1 => any::<u8>()])
            .prop_map(|(kind, number, gone)| Step::Part(kind, number, gone)),
        6 => select(vec![1, 61, 301, 601]).prop_map(Step::Wait),
        6 => (0..8_usize).prop_map(Step::Hit),
        3 => (prop::collection::vec(any_change_of_the_api(), 1..8), Just(lists()).prop_shuffle())
            .prop_map(|(unseen, lists)| Step::Gap(unseen, lists)),
        1 => Just(lists()).prop_shuffle().prop_map(Step::Restart),
    ]
}

/// What may happen while another fact is applied.
pub fn any_fact() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any_node_fact(),
        6 => any_change_of_the_api(),
        2 => any_kind().prop_map(|kind| Step::Relist(kind, 0)),
        1 => (select(vec![Watched::Pods, Watched::EndpointSlices]), 0..24_usize)
            .prop_map(|(kind, number)| Step::Part(kind, number, 0)),
    ]
}

fn any_change_of_the_api() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => any_pod(),
        24 => (0..PODS, any_change()).prop_map(|(pod, change)| Step::Change(pod, change)),
        6 => (0..PODS, prop::bool::weighted(0.8)).prop_map(|(pod, deleting)| Step::Delete(pod, deleting)),
        20 => any_slice().prop_map(Step::Slice),
        3 => (0..4_usize).prop_map(Step::DeleteSlice),
        6 => any_service().prop_map(Step::Service),
        1 => (0..4_usize).prop_map(Step::DeleteService),
        2 => any_node().prop_map(Step::Node),
        1 => (0..3_usize).prop_map(Step::DeleteNode),
        2 => (select(vec!["shop", "other"]), any_bound()).prop_map(|(name, bound)| Step::Namespace(name, bound)),
    ]
}

/// A list of each kind; with the last one the state is synced.
pub fn lists() -> Vec<Step> {
    Watched::ALWAYS.map(|kind| Step::Relist(kind, 0)).into()
}

pub fn any_node_fact() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => rarely_a_pods(vec![NODE]).prop_map(Step::Local),
        2 => prop::collection::vec(any_ip(), 0..2).prop_map(Step::Held),
        1 => any_ip().prop_map(Step::Speaks),
        1 => Just(Step::Unknown),
        1 => any::<bool>().prop_map(Step::SocketLb),
        3 => (0..3_usize).prop_map(Step::NodeSeen),
    ]
}

fn any_pod() -> impl Strategy<Value = Step> {
    let namespace = prop_oneof![3 => Just("shop"), 1 => Just("other")];
    let bound = prop::bool::weighted(0.95);
    (
        0..PODS,
        namespace,
        any_app(),
        bound,
        any_variant(),
        any_sandbox(),
        any_ips(),
    )
        .prop_map(|(number, namespace, app, bound, variant, sandbox, ips)| {
            let on = node_of(number);
            let mut shown = Pod {
                node: Some(node_name(on).into()),
                uid: pod_uid(number),
                ..pod(
                    namespace,
                    &format!("name-{}", number % 6),
                    app,
                    &ips_of(on, &ips),
                )
            };
            set_sandbox(&mut shown, sandbox);
            set_variant(&mut shown, variant);
            Step::Pod(shown, bound)
        })
}

fn any_change() -> impl Strategy<Value = PodChange> {
    prop_oneof![
        3 => any_ips().prop_map(PodChange::Ips),
        1 => Just(PodChange::StrayIp),
        10 => select(vec![UidState::Live, UidState::Retired, UidState::Dead, UidState::Dead])
            .prop_map(PodChange::State),
        3 => any::<bool>().prop_map(PodChange::Deleting),
        2 => any_sandbox().prop_map(PodChange::Sandbox),
        1 => any_variant().prop_map(PodChange::Variant),
        2 => any_app().prop_map(PodChange::App),
        1 => any_bound().prop_map(PodChange::Bound),
    ]
}

fn any_slice() -> impl Strategy<Value = SliceStep> {
    let endpoint = prop_oneof![
        4 => (0..PODS).prop_map(EndpointStep::Of),
        1 => (any_ip(), prop::option::weighted(0.8, (0..PODS).prop_map(pod_uid)))
            .prop_map(|(ip, target)| EndpointStep::Stray(ip, target)),
    ];
    let port = |name, port, protocol| SlicePort {
        name: PortName::new(name),
        port,
        protocol,
    };
    let ports = vec![
        port("http", 8080, Protocol::Tcp),
        port("metrics", 8080, Protocol::Tcp),
        port("dns", 9090, Protocol::Udp),
        port("", ANY_PORT, Protocol::Tcp),
    ];
    (
        0..4_usize,
        0..4_usize,
        prop::collection::vec(endpoint, 0..4),
        subsequence(ports, 1..=3),
        prop::option::weighted(0.1, select(vec!["shop", "other"])),
        prop::bool::weighted(0.03),
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(number, service, endpoints, ports, namespace, partial, foreign)| SliceStep {
                number,
                service,
                endpoints,
                ports,
                namespace,
                partial,
                foreign,
            },
        )
}

fn any_service() -> impl Strategy<Value = Service> {
    let vips = vec![
        Addr::v4([10, 96, 0, 1]),
        Addr::v4([10, 96, 0, 2]),
        Addr::v4([10, 96, 0, 3]),
    ];
    (
        0..4_usize,
        prop::option::weighted(
            0.8,
            prop_oneof![9 => any_app(), 1 => Just("its-controllers")],
        ),
        subsequence(vips, 0..=2),
        prop::option::weighted(0.1, any_ip()),
        select(vec![0, 0, 30080]),
        any_bound(),
        prop::bool::weighted(0.03),
    )
        .prop_map(
            |(number, app, vips, further, node_port, bound, partial)| Service {
                bound,
                partial,
                ..service(
                    number,
                    app,
                    vips.into_iter().chain(further).collect(),
                    node_port,
                )
            },
        )
}

/// No app: no selector. No VIP: headless.
pub fn service(number: usize, app: Option<&str>, vips: Vec<Addr>, node_port: u16) -> Service {
    Service {
        name: service_name(number),
        uid: uid(&format!("service-{number}")),
        selector: app.map(|app| [("app", app)].into_iter().collect()),
        vips,
        ports: vec![ServicePort {
            port: 80,
            node_port,
            protocol: Protocol::Tcp,
        }],
        on_denial: OnDenial {
            action: [Action::Unset, Action::Redirect][number % 2],
            local_only: node_port != 0,
            ..OnDenial::default()
        },
        ..web()
    }
}

fn any_node() -> impl Strategy<Value = Node> {
    (
        0..3_usize,
        prop_oneof![3 => Just(0), 1 => 1..4_u8],
        rarely_a_pods(vec![]),
        prop::bool::weighted(0.8),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(number, range, more_addresses, has_ranges, rebooted, replaced, virtual_kubelet)| {
                let mut node =
                    plain_node(number, if range == 0 { [1, 2, 2][number] } else { range });
                node.addresses.extend(more_addresses);
                node.virtual_kubelet = virtual_kubelet;
                if !has_ranges {
                    node.pod_cidrs.clear();
                }
                if rebooted {
                    node.boot_id = uid("another boot");
                }
                if replaced {
                    node.uid = uid("another node");
                }
                node
            },
        )
}

fn any_kind() -> impl Strategy<Value = Watched> {
    select([&Watched::ALWAYS[..], &[Watched::Pods]].concat())
}

fn any_app() -> impl Strategy<Value = &'static str> {
    prop_oneof![2 => Just("web"), 1 => Just("api")]
}

fn any_sandbox() -> impl Strategy<Value = Shown> {
    let sandbox = prop_oneof![
        8 => Just(Sandbox::Published),
        1 => Just(Sandbox::FirstStarts),
        2 => Just(Sandbox::Unsettled),
    ];
    (sandbox, 0..3_u32, 0..3_u32)
}

fn any_variant() -> impl Strategy<Value = Variant> {
    prop_oneof![
        12 => Just(Variant::Plain),
        2 => select(vec![80, 30080]).prop_map(Variant::HostPort),
        1 => Just(Variant::HostNetwork),
        1 => Just(Variant::Mirror),
        1 => Just(Variant::StaticIp),
        1 => Just(Variant::Partial),
        2 => any_ip().prop_map(Variant::Network),
    ]
}

fn any_ips() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        1 => Just(vec![]),
        6 => (0..3_usize).prop_map(|ip| vec![ip]),
        2 => subsequence(vec![0, 1, 2], 2),
    ]
}

fn any_ip() -> impl Strategy<Value = Addr> {
    select([pool(0), pool(1)].concat())
}

/// An address of a node is never judged again, so one from the pods' pool costs a sequence much of
/// its worth.
fn rarely_a_pods(usual: Vec<Addr>) -> impl Strategy<Value = Vec<Addr>> {
    prop_oneof![3 => Just(usual), 1 => any_ip().prop_map(|ip| vec![ip])]
}

fn any_bound() -> impl Strategy<Value = Mode> {
    prop_oneof![8 => Just(Mode::Enforce), 1 => Just(Mode::Observe), 1 => Just(Mode::Off)]
}
