//! The pods that really held each address, by the node's records. No API object counts here.

use super::recording::{Kind, RecordedObject, Recording, What};
use crate::object::{annotation, each, ip, name, non_empty, uid};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// All address lives of a recording.
#[derive(Debug, Default)]
pub struct Truth {
    leases: Vec<Lease>,
    pods: BTreeMap<String, PodIdentity>,
    versions: BTreeMap<String, Vec<(Duration, RecordedObject)>>,
}

/// A pod as the node identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodIdentity {
    /// `namespace/name`, or `an unknown pod`.
    pub name: String,
    /// UIDs of its API objects: of a static pod those of its mirrors, one after the other.
    pub uids: BTreeSet<String>,
}

/// The time during which one sandbox held one address.
#[derive(Debug)]
struct Lease {
    node: String,
    ip: IpAddr,
    from: Duration,
    to: Option<Duration>,
    sandbox: Option<String>,
    link: Option<String>,
    /// True if the address manager recorded the beginning; it will also record the end.
    managed: bool,
}

impl Truth {
    /// Reads the node's side of a recording.
    pub fn of(recording: &Recording) -> Self {
        let mut truth = Self::default();
        for (at, pod) in recording.objects(Kind::Pod) {
            if let Some(uid) = uid(pod) {
                truth
                    .versions
                    .entry(uid.into())
                    .or_default()
                    .push((at, RecordedObject::clone(pod)));
            }
        }
        for (at, what) in &recording.instants {
            if let What::Node(line) = what {
                truth.identify(&line["sandbox"]);
                truth.take(*at, line);
            }
        }
        truth
    }

    /// The pods that hold the address at this time; one that was not identified has no UIDs.
    pub fn holders(&self, ip: IpAddr, at: Duration) -> Vec<PodIdentity> {
        let pod = |lease: &Lease| self.pods.get(lease.sandbox.as_ref()?).cloned();
        self.leases
            .iter()
            .filter(|lease| lease.ip == ip && lease.from <= at && lease.to.is_none_or(|to| at < to))
            .map(|lease| {
                pod(lease).unwrap_or_else(|| PodIdentity {
                    name: "an unknown pod".into(),
                    uids: BTreeSet::new(),
                })
            })
            .collect()
    }

    /// The latest API object of a pod at this time, or the first one after it.
    pub fn object(&self, pod: &PodIdentity, at: Duration) -> Option<&RecordedObject> {
        let versions = pod
            .uids
            .iter()
            .filter_map(|uid| self.versions.get(uid))
            .flatten();
        let (past, future): (Vec<_>, Vec<_>) = versions.partition(|(time, _)| *time <= at);
        let latest = past.into_iter().max_by_key(|(time, _)| *time);
        latest
            .or_else(|| future.into_iter().min_by_key(|(time, _)| *time))
            .map(|(_, object)| object)
    }

    /// The runtime's UID equals the API's. For a static pod it is the hash of the configuration
    /// that the mirror carries as an annotation.
    fn identify(&mut self, sandbox: &Value) {
        let fields = ["id", "ns", "pod", "uid"].map(|field| non_empty(&sandbox[field]));
        let [Some(id), Some(namespace), Some(pod), Some(uid)] = fields else {
            return;
        };
        let pod = format!("{namespace}/{pod}");
        let uids = self
            .versions
            .iter()
            .filter(|(api, versions)| {
                let object = &versions[0].1;
                let mirrors = annotation(object, "kubernetes.io/config.mirror");
                api.starts_with(uid) || (mirrors.is_some() && name(object) == pod)
            })
            .map(|(api, _)| api.clone())
            .collect();
        self.pods
            .entry(id.into())
            .or_insert(PodIdentity { name: pod, uids });
    }

    fn take(&mut self, at: Duration, line: &Value) {
        let node = line["node"].as_str().unwrap_or_default();
        match (line["src"].as_str(), line["op"].as_str()) {
            (Some("ipam"), Some(op)) => self.ipam(at, node, op, line),
            (Some("route"), Some(op)) => self.route(at, node, op, &line["line"]),
            (Some("link"), Some("del")) => self.link_gone(at, node, &line["line"]),
            (Some("cri"), _) => self.sandbox(at, node, line),
            _ => {}
        }
    }

    fn ipam(&mut self, at: Duration, node: &str, op: &str, line: &Value) {
        let Some(ip) = ip(&line["ip"]) else { return };
        self.end(at, |lease| lease.node == node && lease.ip == ip);
        if op == "alloc" {
            let sandbox = non_empty(&line["sandbox"]).map(str::to_owned);
            self.leases.push(Lease {
                managed: true,
                sandbox,
                ..Lease::new(node, ip, at)
            });
        }
    }

    /// A host route (`10.244.1.10 dev veth0 scope host`) of a point-to-point CNI.
    fn route(&mut self, at: Duration, node: &str, op: &str, line: &Value) {
        let words: Vec<&str> = line
            .as_str()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ["dev", interface, ..] = words.get(1..).unwrap_or_default() else {
            return;
        };
        let Ok(ip) = words[0].parse() else { return };
        if op == "del" {
            return self.end(at, |lease| {
                !lease.managed && lease.node == node && lease.ip == ip
            });
        }
        if self.open(node, ip).is_none() {
            self.leases.push(Lease::new(node, ip, at));
        }
        if let Some(lease) = self.open(node, ip) {
            lease.link = Some((*interface).into());
        }
    }

    /// `14: veth0444efa0@NONE: <BROADCAST,...`: the sandbox behind the link is unreachable, even if
    /// its address is still assigned.
    fn link_gone(&mut self, at: Duration, node: &str, notice: &Value) {
        let mut parts = notice.as_str().unwrap_or_default().split(": ");
        let link = parts
            .nth(1)
            .map(|name| name.split('@').next().unwrap_or(name));
        self.end(at, |lease| {
            link.is_some() && lease.node == node && lease.link.as_deref() == link
        });
    }

    fn sandbox(&mut self, at: Duration, node: &str, line: &Value) {
        let sandbox = &line["sandbox"];
        let Some(id) = non_empty(&sandbox["id"]).or_else(|| non_empty(&line["id"])) else {
            return;
        };
        if sandbox["state"] != "SANDBOX_READY" {
            let removed = sandbox.is_object() || line["kind"] == "sandbox-poll-removed";
            return self.end(at, |lease| {
                removed && !lease.managed && lease.sandbox.as_deref() == Some(id)
            });
        }
        let age = line["wall_us"]
            .as_u64()
            .zip(sandbox["created_us"].as_u64())
            .map_or(0, |(now, created)| now.saturating_sub(created));
        let from = at.saturating_sub(Duration::from_micros(age));
        for ip in each(&sandbox["ips"]).filter_map(ip) {
            let over = self
                .leases
                .iter()
                .any(|lease| lease.ip == ip && lease.sandbox.as_deref() == Some(id));
            if let Some(lease) = self.open(node, ip) {
                lease.sandbox.get_or_insert_with(|| id.into());
            } else if !over {
                self.leases.push(Lease {
                    sandbox: Some(id.into()),
                    ..Lease::new(node, ip, from)
                });
            }
        }
    }

    fn open(&mut self, node: &str, ip: IpAddr) -> Option<&mut Lease> {
        let mut leases = self.leases.iter_mut().rev();
        leases.find(|lease| lease.to.is_none() && lease.node == node && lease.ip == ip)
    }

    fn end(&mut self, at: Duration, which: impl Fn(&Lease) -> bool) {
        let open = self.leases.iter_mut().filter(|lease| lease.to.is_none());
        for lease in open.filter(|lease| which(lease)) {
            lease.to = Some(at);
        }
    }
}

impl Lease {
    fn new(node: &str, ip: IpAddr, from: Duration) -> Self {
        Self {
            node: node.into(),
            ip,
            from,
            to: None,
            sandbox: None,
            link: None,
            managed: false,
        }
    }
}

#[cfg(test)]
mod tests;
