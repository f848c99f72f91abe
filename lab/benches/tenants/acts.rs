//! What the tenant does: objects that are large, and ones whose changes take long.

use crate::cluster::read;
use crate::size;
use crate::tenant::{CHANGES, Tenant, dead, ip, joined, service, slice, uid, written};
use epguard_core::facts::{Change, Fact, Pod, Service, Slice};
use serde_json::{Value, json};
use std::time::Duration;

/// A tenant that never rests: ten minutes of so many changes.
const PATCHES: usize = 12_000;
const PAUSE: Duration = Duration::from_millis(50);

impl Tenant {
    pub(crate) fn annotated_pods(&mut self, count: usize) {
        let ips: Vec<String> = (0..15_000).map(|number| ip(20, number)).collect();
        for change in 0..CHANGES.div_ceil(count) {
            for number in 0..count {
                let pod = annotated(number, change, &ips);
                self.shows(pod);
            }
        }
    }

    pub(crate) fn wide_services(&mut self, count: usize) {
        let ports = (1..=4_000).map(|port| json!({"name": format!("p{port}"), "port": port}));
        let ips = (0..20_000).map(|number| ip(30, number));
        let fields = json!({"ports": ports.collect::<Vec<Value>>(), "externalIPs": ips.collect::<Vec<String>>()});
        for number in (0..count).chain(vec![0; CHANGES]) {
            self.service(number, &format!("wide-{number}"), fields.clone());
        }
    }

    /// So many slices of 1,000 endpoints with 100 addresses each, and 1.1 MB.
    pub(crate) fn huge_slices(&mut self, count: usize, service: Option<&str>) {
        let labels = service.map(|service| format!(r#""kubernetes.io/service-name": "{service}""#));
        for number in 0..count {
            let addresses = |endpoint: usize| {
                let first = 100_000 * number + 100 * endpoint;
                joined(first..first + 100, |number| {
                    format!(r#""{}""#, ip(20, number))
                })
            };
            let endpoints = joined(0..1_000, |endpoint| {
                format!(r#"{{"addresses": [{}]}}"#, addresses(endpoint))
            });
            let rest = format!(
                r#""addressType": "IPv4", "endpoints": [{endpoints}], "ports": [{{"port": 80}}]"#
            );
            let slice: Slice = written(
                &format!("huge-{number}"),
                labels.as_deref().unwrap_or_default(),
                &rest,
            );
            self.0.apply(Fact::Slice(Change::Applied(slice)));
        }
    }

    /// So many Services with selectors of 1.3 MB.
    pub(crate) fn huge_selectors(&mut self, count: usize) {
        let key = "k".repeat(250);
        let value = "v".repeat(60);
        for number in 0..count {
            let labels = joined(0..4_000, |label| {
                format!(r#""{key}/{label}": "{value}-{number}""#)
            });
            let rest = format!(
                r#""spec": {{"clusterIP": "{}", "selector": {{{labels}}}, "ports": [{{"port": 80}}]}}"#,
                ip(50, number)
            );
            let service: Service = written(&format!("huge-{number}"), "", &rest);
            self.0.apply(Fact::Service(Change::Applied(service)));
        }
    }

    /// A Service shows other external IPs all the time.
    pub(crate) fn external_ips_that_change(&mut self) {
        for change in 0..PATCHES {
            let ips = (0..256)
                .map(|number| ip(30, 256 * change + number))
                .collect::<Vec<String>>();
            let service = service(0, "web", json!({"externalIPs": ips}));
            self.0
                .apply_after(PAUSE, Fact::Service(Change::Applied(service)));
        }
    }

    /// The annotation of a pod shows other IPs all the time.
    pub(crate) fn annotated_ips_that_change(&mut self) {
        for change in 0..PATCHES {
            let ips: Vec<String> = (0..32).map(|number| ip(30, 32 * change + number)).collect();
            let pod = annotated(0, 0, &ips);
            self.0.apply_after(PAUSE, Fact::Pod(Change::Applied(pod)));
        }
    }

    /// Slices that list a dead pod at so many ports each are deleted; then the pod changes.
    pub(crate) fn deleted_ports(&mut self, slices: usize, ports: usize) {
        self.service(0, "web", json!({}));
        let pod = self.pod(0);
        self.shows(pod);
        (0..slices).for_each(|number| {
            self.slice(
                number,
                "web",
                0..1,
                ports * number..ports * (number + 1),
                None,
            );
        });
        self.dies(0);
        self.0.rests();
        (0..slices).for_each(|number| self.deletes(number, "web"));
        let pod = dead(self.pod(0));
        (0..CHANGES).for_each(|change| self.labels(&pod, change));
    }

    /// So many slices list pods at so many addresses each, 1,024 in a slice; the pods die, and a
    /// slice changes.
    pub(crate) fn dead_at_many_ips(&mut self, slices: usize, of_pod: usize) {
        let listing = |number: usize, first: usize| {
            let addresses = 1_024 * number + first..1_024 * (number + 1);
            slice(
                number,
                "web",
                addresses.map(|address| (ip(60, address), address / of_pod)),
                0..1,
            )
        };
        self.service(0, "web", json!({}));
        let pods = 1_024 * slices / of_pod;
        for number in 0..pods {
            let pod = self.pod(number);
            self.shows(pod);
        }
        (0..slices).for_each(|number| self.lists(listing(number, 0)));
        (0..pods).for_each(|number| self.dies(number));
        (1..CHANGES).for_each(|change| self.lists(listing(0, change)));
    }

    /// The external IPs of one of 90 Services change, which share them.
    pub(crate) fn shared_external_ips(&mut self) {
        let ips: Vec<String> = (0..64).map(|number| ip(30, number)).collect();
        self.stale_services(90, &json!({"externalIPs": ips}));
        self.0.rests();
        for change in 0..CHANGES {
            let fields = json!({"externalIPs": ips[..64 - change % 2]});
            self.service(0, "stale-0", fields);
        }
    }

    /// So many Services, each with a port of its own, share as many external IPs, and one changes
    /// its port.
    pub(crate) fn services_at_each_address(&mut self, count: usize) {
        let ips: Vec<String> = (0..count).map(|number| ip(30, number)).collect();
        let fields =
            |port: usize| json!({"ports": [{"name": "p1", "port": port}], "externalIPs": ips});
        self.stale_services(count, &json!({}));
        for number in 0..count {
            self.service(number, &format!("stale-{number}"), fields(1_000 + number));
        }
        self.0.rests();
        (0..CHANGES).for_each(|change| self.service(0, "stale-0", fields(5_000 + change)));
    }

    /// A pod waits for its IP beside 200 others, and 1,000 stale Services whose selectors have 250
    /// labels, as it has; the others lack one.
    pub(crate) fn waiting_pods(&mut self) {
        let labels = |last: &str| -> Value {
            (0..250)
                .map(|label| {
                    (
                        format!("label-{label}"),
                        json!(if label == 249 { last } else { "x" }),
                    )
                })
                .collect()
        };
        let own = labels("own");
        let other = labels("other");
        self.stale_services(1_000, &json!({"selector": own}));
        (0..200).for_each(|number| self.shows(waits(number, &other)));
        self.0.rests();
        (200..200 + CHANGES).for_each(|number| self.shows(waits(number, &own)));
    }

    /// So many pods wait for their IPs beside a Service with so many dead pods, which is patched.
    pub(crate) fn starting_pods(&mut self, starting: usize, dead: usize) {
        self.service(0, "web", json!({}));
        for number in 0..dead {
            let pod = self.pod(number);
            self.shows(pod);
        }
        self.slice(0, "web", 0..dead, 0..1, None);
        (0..dead).for_each(|number| self.dies(number));
        (0..starting).for_each(|number| self.shows(waits(number, &json!({"app": "other"}))));
        self.0.rests();
        (0..CHANGES)
            .for_each(|change| self.service(0, "web", json!({"externalIPs": [ip(40, change)]})));
    }

    /// The slices of so many Services with 4,096 endpoints each are deleted, and these become old
    /// at once.
    pub(crate) fn forgotten_endpoints(&mut self, services: usize) {
        for number in 0..services {
            let name = format!("web-{number}");
            self.service(number, &name, json!({}));
            self.slice(number, &name, 512 * number..512 * (number + 1), 0..8, None);
        }
        (0..services).for_each(|number| self.deletes(number, &format!("web-{number}")));
        self.0.rests();
        let none = || Fact::LocalAddresses(Vec::new());
        self.0.apply_after(Duration::from_mins(11), none());
        (0..30).for_each(|_| self.0.apply_after(Duration::from_secs(1), none()));
    }

    /// A slice that is too large is patched, of a Service with so many slices of 4,000 endpoints.
    pub(crate) fn left_out_slice(&mut self, slices: usize) {
        self.fat_slices(slices);
        self.0.rests();
        for change in 0..CHANGES {
            self.slice(slices, "web", 0..1_000 - change, 0..9, None);
        }
    }

    /// So many slices with so many ports each list a dead pod of this node, where another one
    /// changes, and then the dead one.
    pub(crate) fn listed_orphan_ip(&mut self, slices: usize, ports: usize) {
        let own = |tenant: &Self, number: usize| {
            let ips = [[10, 0, 0, 200 + u8::try_from(number).unwrap()].into()];
            Pod {
                ips: ips
                    .map(|ip: std::net::Ipv4Addr| std::net::IpAddr::from(ip).into())
                    .into_iter()
                    .collect(),
                node: Some(size::node_name(0).into()),
                ..tenant.pod(number)
            }
        };
        let [ends, changes] = [0, 1].map(|number| own(self, number));
        for pod in [&ends, &changes] {
            self.shows(pod.clone());
        }
        for number in 0..slices {
            let service = format!("web-{}", number / 2);
            self.service(number / 2, &service, json!({}));
            let ports = ports * (number % 2)..ports * (number % 2 + 1);
            self.slice(number, &service, 0..1, ports, Some("10.0.0.200"));
        }
        let ended = dead(ends);
        self.shows(ended.clone());
        self.0.rests();
        (0..CHANGES).for_each(|change| self.labels(&changes, change));
        (0..CHANGES).for_each(|change| self.labels(&ended, change));
        (0..2).for_each(|_| {
            self.0
                .apply_after(Duration::from_secs(1), Fact::LocalAddresses(Vec::new()));
        });
    }

    /// A pod that a Service with so many slices of 4,000 endpoints lists changes its labels.
    pub(crate) fn listed_pod(&mut self, slices: usize) {
        self.fat_slices(slices);
        let pod = self.pod(1_000 * slices - 1);
        self.0.rests();
        (0..CHANGES).for_each(|change| self.labels(&pod, change));
    }

    /// The slices of a Service are deleted.
    pub(crate) fn deleted_slices(&mut self, slices: usize) {
        self.fat_slices(slices);
        self.0.rests();
        (0..slices).for_each(|number| self.deletes(number, "web"));
        (0..2 * CHANGES)
            .for_each(|number| self.slice(number, "new", number..number + 1, 0..1, None));
    }

    /// A Service whose VIPs are too many is patched, beside 1,500 stale Services.
    pub(crate) fn left_out_service(&mut self) {
        self.stale_services(1_500, &json!({}));
        let ports = (1..=80).map(|port| json!({"name": format!("p{port}"), "port": port}));
        let ports: Vec<Value> = ports.collect();
        let ips: Vec<String> = (0..255).map(|number| ip(30, number)).collect();
        self.0.rests();
        for change in 0..CHANGES {
            let fields = json!({"ports": ports, "externalIPs": ips[..255 - change]});
            self.service(1_500, "wide", fields);
        }
    }

    /// Each lists the same pod.
    pub(crate) fn crowd(&mut self) {
        let pod = Pod {
            labels: [("app", "one")].into_iter().collect(),
            ..self.pod(0)
        };
        self.shows(pod.clone());
        for number in 0..1_500 {
            let name = format!("crowd-{number}");
            self.service(number, &name, json!({"externalIPs": [ip(40, number)]}));
            self.slice(number, &name, 0..1, 0..1, None);
        }
        for change in 0..CHANGES {
            let labels = [("app", if change % 2 == 0 { "web" } else { "one" })];
            let labels = labels.into_iter().collect();
            self.shows(Pod {
                labels,
                ..pod.clone()
            });
        }
        self.shows(dead(pod));
    }

    /// Of Service web: 3,000 dead pods, as many as Kubernetes supports in a namespace, 8 ports.
    pub(crate) fn denials(&mut self) {
        self.service(0, "web", json!({"externalIPs": [ip(40, 0)]}));
        self.service(1, "other", json!({"externalIPs": [ip(40, 1)]}));
        for number in 0..3_000 {
            let pod = self.pod(number);
            self.shows(pod);
        }
        for number in 0..6 {
            self.slice(number, "web", 500 * number..500 * (number + 1), 0..8, None);
        }
        (0..3_000).for_each(|number| self.dies(number));
        self.0.rests();
    }

    /// The selector of Service `web` or `other` changes.
    pub(crate) fn patches(&mut self, name: &str) {
        for change in 0..CHANGES {
            let number = usize::from(name != "web");
            let selector = json!({"app": format!("patched-{change}")});
            self.service(
                number,
                name,
                json!({"externalIPs": [ip(40, number)], "selector": selector}),
            );
        }
    }
}

/// A pod with these labels that waits for its IP.
fn waits(number: usize, labels: &Value) -> Pod {
    let metadata = json!({
        "namespace": "tenant", "name": format!("waits-{number}"), "uid": uid(3, number), "labels": labels,
    });
    let spec = json!({"nodeName": size::node_name(1)});
    read(&json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}))
}

/// A pod that waits, and whose annotation shows these addresses.
fn annotated(number: usize, change: usize, ips: &[String]) -> Pod {
    let status = json!([{"name": "net", "interface": "net1", "ips": ips}]).to_string();
    let labels = json!({"app": format!("{number}"), "change": format!("{change}")});
    read(&json!({
        "metadata": {
            "namespace": "tenant", "name": format!("fat-{number}"), "uid": uid(4, number), "labels": labels,
            "annotations": {"k8s.v1.cni.cncf.io/network-status": status},
        },
        "spec": {"nodeName": size::node_name(1)},
        "status": {"phase": "Pending"},
    }))
}
