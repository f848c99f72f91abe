//! Pods, slices, Services and nodes of the small world, and the facts that show them.

use super::*;
use std::collections::BTreeSet;

pub const X: Addr = Addr::v4([10, 244, 1, 10]);
pub const Y: Addr = Addr::v4([10, 244, 1, 11]);
/// Of node-b's range.
pub const FAR: Addr = Addr::v4([10, 244, 2, 10]);
pub const NODE: Addr = Addr::v4([192, 168, 250, 11]);

pub fn shown(pod: Pod) -> Fact {
    Fact::Pod(Change::Applied(pod))
}

/// The pod's object is deleted after it was terminating.
pub fn gone(pod: &Pod) -> Fact {
    Fact::Pod(Change::Deleted(Pod {
        deleting: true,
        ..pod.clone()
    }))
}

pub fn list_of(pods: &[Pod]) -> Fact {
    Fact::Pod(Change::Reset(pods.to_vec()))
}

pub fn sliced(endpoints: &[(Addr, Option<Uid>)]) -> Fact {
    Fact::Slice(Change::Applied(slice("web", endpoints)))
}

/// What a narrow list shows.
pub fn part<T>(selection: Selection, objects: Vec<T>) -> Part<T> {
    Part {
        selection,
        sent: Duration::MAX,
        objects,
        later: BTreeSet::new(),
    }
}

pub fn shown_slice(slice: Slice) -> Fact {
    Fact::Slice(Change::Applied(slice))
}

pub fn shown_node(node: Node) -> Fact {
    Fact::Node(Change::Applied(node))
}

pub fn shown_namespace(name: &str, bound: Mode) -> Fact {
    Fact::Namespace(Change::Applied(namespace(name, bound)))
}

pub fn service(service: Service) -> Fact {
    Fact::Service(Change::Applied(service))
}

pub fn uid(name: &str) -> Uid {
    Uid::parse(name).unwrap()
}

pub fn pod(namespace: &str, name: &str, app: &str, ips: &[Addr]) -> Pod {
    Pod {
        uid: uid(name),
        name: ObjectName::new(namespace, name),
        node: Some("node-a".into()),
        labels: [("app", app)].into_iter().collect(),
        ips: ips.into(),
        sandbox: Sandbox::Published,
        bound: Mode::Enforce,
        ..Pod::default()
    }
}

/// The pod on X.
pub fn a() -> Pod {
    pod("shop", "a", "web", &[X])
}

/// A pod of another namespace on X.
pub fn b() -> Pod {
    pod("other", "b", "b", &[X])
}

/// The pod on a node.
pub fn on(node: &str, pod: Pod) -> Pod {
    Pod {
        node: Some(node.into()),
        ..pod
    }
}

/// A pod of the Service on node-b.
pub fn far() -> Pod {
    on("node-b", pod("shop", "far", "web", &[FAR]))
}

pub fn namespace(name: &str, bound: Mode) -> Namespace {
    let name = name.into();
    Namespace { name, bound }
}

/// A pod of the Service, the same for the same number.
pub fn backend(number: u8) -> Pod {
    let ip = Addr::v4([10, 244, 1, 10 + number]);
    pod("shop", &format!("backend-{number}"), "web", &[ip])
}

pub fn endpoints(pods: &[Pod]) -> Vec<(Addr, Option<Uid>)> {
    pods.iter().map(|pod| (pod.ips[0], Some(pod.uid))).collect()
}

pub fn dead(pod: &Pod) -> Pod {
    Pod {
        uid_state: UidState::Dead,
        sandbox: Sandbox::Unsettled,
        ..pod.clone()
    }
}

pub fn terminal(pod: &Pod) -> Pod {
    Pod {
        uid_state: UidState::Retired,
        ..pod.clone()
    }
}

/// Bound, no IP yet.
pub fn pending(namespace: &str, name: &str, app: &str) -> Pod {
    Pod {
        sandbox: Sandbox::Unsettled,
        ..pod(namespace, name, app, &[])
    }
}

pub fn endpoint(ip: Addr, target: Option<Uid>) -> SliceEndpoint {
    SliceEndpoint {
        ip,
        target,
        ready: true,
    }
}

pub fn tcp(name: &str, port: u16) -> SlicePort {
    SlicePort {
        name: PortName::new(name),
        port,
        protocol: Protocol::Tcp,
    }
}

/// Of Service `shop/web`, with port 8080. Its pods are of the same namespace.
pub fn slice(name: &str, endpoints: &[(Addr, Option<Uid>)]) -> Slice {
    let names_pods = endpoints.iter().any(|(_, target)| target.is_some());
    Slice {
        namespaces: names_pods.then(|| "shop".into()).into_iter().collect(),
        name: ObjectName::new("shop", name),
        service: Some(ObjectName::new("shop", "web")),
        endpoints: endpoints
            .iter()
            .map(|(ip, target)| endpoint(*ip, *target))
            .collect(),
        ports: vec![tcp("http", 8080)],
        partial: false,
        foreign: false,
        triggered: None,
    }
}

pub fn web() -> Service {
    Service {
        uid: uid("web"),
        name: ObjectName::new("shop", "web"),
        selector: Some([("app", "web")].into_iter().collect()),
        vips: vec![Addr::v4([10, 96, 0, 1])],
        proxied: vec![],
        other_proxy: false,
        partial: false,
        ports: vec![ServicePort {
            port: 80,
            node_port: 30080,
            protocol: Protocol::Tcp,
        }],
        bound: Mode::Enforce,
        on_denial: OnDenial::default(),
    }
}

/// The node has a route to each of these addresses, and to no other part of its ranges.
pub fn routes_to(ips: &[Addr]) -> Fact {
    Fact::Presence(Presence::Routes(Routes::new(
        &Cidr::ALL,
        ips.iter().copied().map(Cidr::of),
    )))
}

pub fn node(name: &str, number: u8) -> Node {
    Node {
        name: name.into(),
        uid: uid(&format!("node-{name}")),
        addresses: vec![Addr::v4([192, 168, 250, 10 + number])],
        pod_cidrs: vec![Cidr::parse(&format!("10.244.{number}.0/24")).unwrap()],
        boot_id: uid(&format!("boot-{name}")),
        virtual_kubelet: false,
        zone: None,
        canary: false,
    }
}
