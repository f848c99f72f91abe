//! The owner of namespace `tenant`, and the objects that it writes.

use crate::cluster::{Cluster, read};
use crate::objects::State;
use epguard_common::{Uid, UidState};
use epguard_core::facts::{Change, Fact, Object, ObjectName, Pod, Service, Slice};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::ops::Range;

/// How often the tenant changes an object.
pub(crate) const CHANGES: usize = 20;

pub(crate) struct Tenant(pub(crate) Cluster);

impl Tenant {
    /// Writes a Service, with these fields of its `spec` beside a ClusterIP, port 80 and the
    /// selector `app=web`.
    pub(crate) fn service(&mut self, number: usize, name: &str, fields: Value) {
        let service = service(number, name, fields);
        self.0.apply(Fact::Service(Change::Applied(service)));
    }

    /// Writes a slice that lists these pods, each at its own address or all at this one.
    pub(crate) fn slice(
        &mut self,
        number: usize,
        service: &str,
        pods: Range<usize>,
        ports: Range<usize>,
        at: Option<&str>,
    ) {
        let address = |pod: usize| at.map_or_else(|| ip(60, pod), str::to_owned);
        self.lists(slice(
            number,
            service,
            pods.map(|pod| (address(pod), pod)),
            ports,
        ));
    }

    pub(crate) fn lists(&mut self, slice: Slice) {
        self.0.apply(Fact::Slice(Change::Applied(slice)));
    }

    /// Deletes a slice.
    pub(crate) fn deletes(&mut self, number: usize, service: &str) {
        let slice = slice(number, service, [].into_iter(), 0..0);
        self.0.apply(Fact::Slice(Change::Deleted(slice)));
    }

    /// Writes a pod.
    pub(crate) fn shows(&mut self, pod: Pod) {
        self.0.apply(Fact::Pod(Change::Applied(pod)));
    }

    /// A pod of [`Tenant::pod`] ends.
    pub(crate) fn dies(&mut self, number: usize) {
        self.shows(dead(self.pod(number)));
    }

    /// Such a pod changes its labels, and nothing else.
    pub(crate) fn labels(&mut self, pod: &Pod, change: usize) {
        let labels = [("change", change.to_string())].into_iter().collect();
        self.shows(Pod {
            labels,
            ..pod.clone()
        });
    }

    /// A pod that slices list by its number, at the address that they give to it.
    pub(crate) fn pod(&self, number: usize) -> Pod {
        let ips = [ip(60, number).parse::<IpAddr>().unwrap().into()];
        Pod {
            uid: Uid::parse(&uid(1, number)).unwrap(),
            name: name(&format!("pod-{number}")),
            ips: ips.into_iter().collect(),
            ..read(&self.0.pod(u32::try_from(number).unwrap(), State::Running))
        }
    }

    /// So many Services, each of which lists the same dead pod.
    pub(crate) fn stale_services(&mut self, count: usize, fields: &Value) {
        let pod = self.pod(0);
        self.shows(pod);
        for number in 0..count {
            let name = format!("stale-{number}");
            self.service(number, &name, fields.clone());
            self.slice(number, &name, 0..1, 0..1, None);
        }
        self.dies(0);
    }

    /// A Service with so many slices of 1,000 pods and 4 ports.
    pub(crate) fn fat_slices(&mut self, count: usize) {
        self.service(0, "web", json!({}));
        for number in 0..count {
            self.slice(
                number,
                "web",
                1_000 * number..1_000 * (number + 1),
                0..4,
                None,
            );
        }
    }
}

pub(crate) fn dead(pod: Pod) -> Pod {
    let uid_state = UidState::Dead;
    Pod { uid_state, ..pod }
}

pub(crate) fn service(number: usize, name: &str, fields: Value) -> Service {
    let cluster_ip = ip(50, number);
    let mut spec = json!({
        "selector": {"app": "web"}, "clusterIP": cluster_ip, "clusterIPs": [cluster_ip],
        "ports": [{"name": "p1", "port": 80}],
    });
    if let Value::Object(fields) = fields {
        spec.as_object_mut().unwrap().extend(fields);
    }
    let metadata = json!({"namespace": "tenant", "name": name, "uid": uid(2, number)});
    read(&json!({"metadata": metadata, "spec": spec}))
}

/// A slice that lists pods by their numbers at addresses.
pub(crate) fn slice(
    number: usize,
    service: &str,
    endpoints: impl Iterator<Item = (String, usize)>,
    ports: Range<usize>,
) -> Slice {
    let endpoints = endpoints.map(|(address, pod)| {
        let target = json!({
            "kind": "Pod", "namespace": "tenant", "name": format!("pod-{pod}"), "uid": uid(1, pod),
        });
        json!({"addresses": [address], "conditions": {"ready": true}, "targetRef": target})
    });
    let ports = ports.map(|port| json!({"name": format!("p{}", port + 1), "port": 8_001 + port}));
    let labels = json!({
        "kubernetes.io/service-name": service,
        "endpointslice.kubernetes.io/managed-by": Slice::CONTROLLER,
    });
    read(&json!({
        "metadata": {"namespace": "tenant", "name": format!("{service}-{number}"), "labels": labels},
        "addressType": "IPv4",
        "endpoints": endpoints.collect::<Vec<Value>>(),
        "ports": ports.collect::<Vec<Value>>(),
    }))
}

/// An object of which the rest is text: a tree of JSON values would take longer to build than to
/// read.
pub(crate) fn written<O: Object>(name: &str, labels: &str, rest: &str) -> O {
    let metadata = format!(
        r#"{{"namespace": "tenant", "name": "{name}", "uid": "{name}", "labels": {{{labels}}}}}"#
    );
    O::parse(format!(r#"{{"metadata": {metadata}, {rest}}}"#).as_bytes()).unwrap()
}

/// Texts of so many numbers, separated by commas.
pub(crate) fn joined(numbers: Range<usize>, text: impl Fn(usize) -> String) -> String {
    numbers.map(text).collect::<Vec<String>>().join(",")
}

pub(crate) fn name(name: &str) -> ObjectName {
    ObjectName::new("tenant", name)
}

pub(crate) fn ip(first: usize, number: usize) -> String {
    format!(
        "{first}.{}.{}.{}",
        number / 65_536,
        number / 256 % 256,
        number % 256
    )
}

pub(crate) fn uid(kind: usize, number: usize) -> String {
    format!("aaaaaaaa-{kind:04x}-4000-9000-{number:012x}")
}
