//! `cargo xtask bench tenants`: what the worst objects of one tenant cost every agent: memory, and the longest time in which nothing
//! else can be done. A program of its own, since its allocator counts.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod cluster;
#[path = "../../../agent/src/fuzz/harness/memory.rs"]
mod memory;
#[allow(dead_code, reason = "the benchmark `scale` uses the rest")]
#[path = "../scale/objects.rs"]
mod objects;
#[allow(dead_code, reason = "the benchmark `scale` uses the rest")]
#[path = "../scale/size.rs"]
mod size;

use cluster::{Cluster, read};
use epguard_common::UidState;
use epguard_core::facts::{Change, Fact, Pod};
use epguard_lab::figures::{self, Row, Table};
use objects::State;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::ops::Range;

/// How often the tenant changes an object.
const CHANGES: usize = 20;

type Act = fn(&mut Tenant);

/// What the tenant does, and the denials that are there then.
const ROWS: [(&str, usize, Act); 10] = [
    ("one pod with 15,000 annotated IPs", 0, |tenant| tenant.annotated_pods(1)),
    ("1,000 such pods", 0, |tenant| tenant.annotated_pods(1_000)),
    ("one Service of 4,000 ports and 20,000 external IPs", 0, |tenant| tenant.wide_services(1)),
    ("1,000 such Services", 0, |tenant| tenant.wide_services(1_000)),
    ("1,000 slices of 1,000 endpoints and 8 ports", 0, |tenant| {
        (0..1_000).for_each(|number| tenant.slice(number, "web", 0..1_000, 0..8, None));
    }),
    ("20 slices that list 1,000 pods at one address each time", 0, |tenant| {
        (0..CHANGES).for_each(|number| tenant.slice(number, "web", 0..1_000, 0..1, Some(&ip(60, 0))));
    }),
    ("4 pods behind 20,000 ports, which die", 32_768, |tenant| {
        tenant.service(0, "web", &http(), &[], "web");
        (0..10)
            .for_each(|number| tenant.slice(number, "web", 0..4, 2_000 * number..2_000 * (number + 1), None));
        (0..4).for_each(|number| tenant.dies(number));
    }),
    ("2,000 Services over one pod that flips, and dies", 2_000, Tenant::crowd),
    ("32,000 denials, and 20 changes of another Service's selector", 32_000, |tenant| {
        tenant.denials();
        tenant.patches("other");
    }),
    ("32,000 denials, and 20 changes of their Service's selector", 32_000, |tenant| {
        tenant.denials();
        tenant.patches("web");
    }),
];

/// What the tenant's objects cost in a cluster that is otherwise at rest: a table of standstills, and one of memory.
fn main() {
    let [mut standstill, mut memory] =
        ["One tenant: longest standstill", "One tenant: memory"].map(Table::new);
    for (name, denials, act) in ROWS {
        let mut tenant = Tenant(Cluster::synced());
        let before = memory::held();
        act(&mut tenant);
        let kibibytes = f64::from(i32::try_from((memory::held() - before) / 1_024).unwrap());
        memory.rows.push(Row::new(name, "MiB", [kibibytes / 1_024.0]).at_most(16.0));
        let longest = tenant.0.longest_turn().as_secs_f64() * 1e3;
        standstill.rows.push(Row::new(name, "ms", [longest]).at_most(10.0));
        assert_eq!(tenant.0.state.tables().denied.len(), denials, "{name}");
    }
    figures::print(&[standstill, memory]);
}

/// The owner of namespace `tenant`.
struct Tenant(Cluster);

impl Tenant {
    fn annotated_pods(&mut self, count: usize) {
        let ips: Vec<String> = (0..15_000).map(|number| ip(20, number)).collect();
        let status = json!([{"name": "net", "interface": "net1", "ips": ips}]).to_string();
        for change in 0..CHANGES.div_ceil(count) {
            for number in 0..count {
                let labels = json!({"app": format!("{number}"), "change": format!("{change}")});
                let pod = json!({
                    "metadata": {
                        "namespace": "tenant", "name": format!("fat-{number}"), "uid": uid(1, number), "labels": labels,
                        "annotations": {"k8s.v1.cni.cncf.io/network-status": status},
                    },
                    "spec": {"nodeName": size::node_name(1)},
                    "status": {"phase": "Pending"},
                });
                self.0.apply(Fact::Pod(Change::Applied(read(&pod))));
            }
        }
    }

    fn wide_services(&mut self, count: usize) {
        let ports = (1..=4_000).map(|port| json!({"name": format!("p{port}"), "port": port}));
        let ports: Vec<Value> = ports.collect();
        let ips: Vec<String> = (0..20_000).map(|number| ip(30, number)).collect();
        for number in (0..count).chain(vec![0; CHANGES]) {
            self.service(number, &format!("wide-{number}"), &json!(ports), &ips, "web");
        }
    }

    /// Each lists the same pod.
    fn crowd(&mut self) {
        let pod = Pod { labels: [("app", "one")].into_iter().collect(), ..self.pod(0) };
        self.0.apply(Fact::Pod(Change::Applied(pod.clone())));
        for number in 0..2_000 {
            let name = format!("crowd-{number}");
            self.service(number, &name, &http(), &[ip(40, number)], "web");
            self.slice(number, &name, 0..1, 0..1, None);
        }
        for change in 0..CHANGES {
            let labels = [("app", if change % 2 == 0 { "web" } else { "one" })];
            let labels = labels.into_iter().collect();
            self.0.apply(Fact::Pod(Change::Applied(Pod { labels, ..pod.clone() })));
        }
        self.0.apply(Fact::Pod(Change::Applied(dead(pod))));
    }

    /// Of Service web: 4,000 dead pods, 8 ports.
    fn denials(&mut self) {
        self.service(0, "web", &http(), &[ip(40, 0)], "web");
        self.service(1, "other", &http(), &[ip(40, 1)], "web");
        for number in 0..4_000 {
            let pod = self.pod(number);
            self.0.apply(Fact::Pod(Change::Applied(pod)));
        }
        for number in 0..4 {
            self.slice(number, "web", 1_000 * number..1_000 * (number + 1), 0..8, None);
        }
        (0..4_000).for_each(|number| self.dies(number));
        self.0.longest_turn();
    }

    fn patches(&mut self, name: &str) {
        for change in 0..CHANGES {
            let number = usize::from(name != "web");
            self.service(number, name, &http(), &[ip(40, number)], &format!("patched-{change}"));
        }
    }

    fn service(&mut self, number: usize, name: &str, ports: &Value, external: &[String], app: &str) {
        let cluster_ip = ip(50, number);
        let service = json!({
            "metadata": {"namespace": "tenant", "name": name, "uid": uid(2, number)},
            "spec": {
                "selector": {"app": app}, "clusterIP": cluster_ip, "clusterIPs": [cluster_ip],
                "ports": ports, "externalIPs": external,
            },
        });
        self.0.apply(Fact::Service(Change::Applied(read(&service))));
    }

    /// Lists these pods, each at its own address or all at this one.
    fn slice(
        &mut self,
        number: usize,
        service: &str,
        pods: Range<usize>,
        ports: Range<usize>,
        at: Option<&str>,
    ) {
        let endpoints = pods.map(|pod| {
            let target = json!({
                "kind": "Pod", "namespace": "tenant", "name": format!("pod-{pod}"), "uid": uid(1, pod),
            });
            let address = at.map_or_else(|| ip(60, pod), str::to_owned);
            json!({"addresses": [address], "conditions": {"ready": true}, "targetRef": target})
        });
        let ports = ports.map(|port| json!({"name": format!("p{}", port + 1), "port": 8_001 + port}));
        let slice = json!({
            "metadata": {
                "namespace": "tenant", "name": format!("{service}-{number}"),
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": endpoints.collect::<Vec<Value>>(),
            "ports": ports.collect::<Vec<Value>>(),
        });
        self.0.apply(Fact::Slice(Change::Applied(read(&slice))));
    }

    fn dies(&mut self, number: usize) {
        let pod = self.pod(number);
        self.0.apply(Fact::Pod(Change::Applied(dead(pod))));
    }

    fn pod(&self, number: usize) -> Pod {
        let ips = [ip(60, number).parse::<IpAddr>().unwrap().into()];
        let name = ("tenant".into(), format!("pod-{number}").into());
        Pod {
            uid: epguard_common::Uid::parse(&uid(1, number)).unwrap(),
            name,
            ips: ips.into_iter().collect(),
            ..read(&self.0.pod(u32::try_from(number).unwrap(), State::Running))
        }
    }
}

fn dead(pod: Pod) -> Pod {
    let uid_state = UidState::Dead;
    Pod { uid_state, ..pod }
}

/// The port of a Service that needs one.
fn http() -> Value {
    json!([{"name": "p1", "port": 80}])
}

fn ip(first: usize, number: usize) -> String {
    format!("{first}.{}.{}.{}", number / 65_536, number / 256 % 256, number % 256)
}

fn uid(kind: usize, number: usize) -> String {
    format!("aaaaaaaa-{kind:04x}-4000-9000-{number:012x}")
}
