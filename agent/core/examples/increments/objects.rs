//! The objects of the cluster.

use crate::cluster::{NODES, PODS_OF_A_SERVICE};
use epguard_common::{Addr, Mode, Uid, UidState};
use epguard_core::facts::{
    Cidr, Ips, Name, Node, OnDenial, Pod, PodName, PortName, Protocol, Sandbox, Service, ServicePort, Slice,
    SliceEndpoint, SlicePort, Text, shared,
};
use std::collections::BTreeMap;

const NAMESPACES: usize = 100;
const PODS_OF_A_SLICE: usize = 100;

/// Which slice lists a pod of the first Service.
pub fn slice_of(pod: usize) -> usize {
    pod / PODS_OF_A_SLICE
}

pub fn namespaces() -> impl Iterator<Item = Text> {
    (0..NAMESPACES).map(namespace_name)
}

pub fn pending(pod: &Pod) -> Pod {
    Pod {
        ips: Ips::new(),
        sandbox: Sandbox::Unsettled,
        ..pod.clone()
    }
}

pub fn deleting(pod: &Pod) -> Pod {
    Pod {
        deleting: true,
        ..pod.clone()
    }
}

pub fn dead(pod: &Pod) -> Pod {
    Pod {
        deleting: true,
        uid_state: UidState::Dead,
        sandbox: Sandbox::Unsettled,
        ..pod.clone()
    }
}

pub fn node_name(number: usize) -> Text {
    shared(&format!("node-{number:04}"))
}

fn namespace_name(number: usize) -> Text {
    shared(&format!("namespace-{number:02}"))
}

fn service_name(number: usize) -> Name {
    (
        namespace_name(number % NAMESPACES),
        shared(&format!("service-{number:05}")),
    )
}

fn octets(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or_default().to_be_bytes()
}

/// The first three octets of a node's range.
fn range(node: usize) -> [u8; 3] {
    let [_, a, b, c] = octets((11 << 16) + node);
    [a, b, c]
}

fn uid(kind: &str, number: usize, generation: u128) -> Uid {
    Uid::parse(&format!("{kind}-{number}-{generation}")).unwrap_or(Uid::NONE)
}

pub fn node(number: usize, boot: u128) -> Node {
    let [_, _, c, d] = octets(number);
    let [r1, r2, r3] = range(number);
    Node {
        name: node_name(number),
        addresses: vec![Addr::v4([192, 168, c, d])],
        pod_cidrs: Cidr::parse(&format!("{r1}.{r2}.{r3}.0/24")).into_iter().collect(),
        boot_id: uid("boot", number, boot),
        virtual_kubelet: false,
        canary: false,
        zone: None,
    }
}

pub fn service(number: usize) -> Service {
    let [_, b, c, d] = octets(number + 1);
    let name = service_name(number);
    Service {
        uid: uid("service", number, 0),
        selector: Some([("app", &name.1)].into_iter().collect()),
        name,
        vips: vec![Addr::v4([172, 16 + b, c, d])],
        ports: vec![ServicePort {
            port: 80,
            node_port: 0,
            protocol: Protocol::Tcp,
        }],
        bound: Mode::Enforce,
        on_denial: OnDenial::default(),
    }
}

/// Pods of the first Service come first. The second generation runs on the next node.
pub fn pod(number: usize, large: usize, generation: u8) -> Pod {
    let of = if number < large {
        0
    } else {
        1 + (number - large) / PODS_OF_A_SERVICE
    };
    let at = number + usize::from(generation);
    let (on, offset) = (at % NODES, at / NODES + 22 * usize::from(generation));
    let [a, b, c] = range(on);
    let last = u8::try_from(offset + 2).unwrap_or_default();
    let (namespace, app) = service_name(of);
    Pod {
        uid: uid("pod", number, generation.into()),
        name: (namespace, format!("{app}-{number}-{generation}").into()),
        node: Some(node_name(on)),
        labels: [
            ("app", app.as_str()),
            ("pod-template-hash", generation.to_string().as_str()),
        ]
        .into_iter()
        .collect(),
        ips: Ips::from_iter([Addr::v4([a, b, c, last])]),
        sandbox: Sandbox::Published,
        bound: Mode::Enforce,
        ..Pod::default()
    }
}

pub fn endpoint(pod: &Pod) -> SliceEndpoint {
    SliceEndpoint {
        ip: pod.ips[0],
        target: Some(pod.uid),
        target_name: Some(PodName::of(pod)),
        ready: true,
    }
}

pub fn slices(pods: &BTreeMap<usize, Pod>, large: usize) -> Vec<Slice> {
    let (first, rest): (Vec<_>, Vec<_>) = pods.iter().partition(|(number, _)| **number < large);
    let slice = |pods: &[(&usize, &Pod)], number: usize| {
        let (namespace, app) = service_name(if *pods[0].0 < large {
            0
        } else {
            1 + (pods[0].0 - large) / PODS_OF_A_SERVICE
        });
        Slice {
            name: (namespace.clone(), format!("{app}-{number}").into()),
            service: Some((namespace, app)),
            endpoints: pods.iter().map(|(_, pod)| endpoint(pod)).collect(),
            ports: vec![SlicePort {
                name: PortName::new("http"),
                port: 8080,
                protocol: Protocol::Tcp,
            }],
            triggered: None,
        }
    };
    let of_first = first
        .chunks(PODS_OF_A_SLICE)
        .enumerate()
        .map(|(at, pods)| slice(pods, at));
    let of_rest = rest.chunks(PODS_OF_A_SERVICE).map(|pods| slice(pods, 0));
    of_first.chain(of_rest).collect()
}
