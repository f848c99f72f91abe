//! The chains, sets and map elements of each Service port.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;

use super::ruleset::{Family, MASQUERADE, in_names};
use super::{Frontend, ServiceRule};

/// Elements by set or map.
pub(super) type Elements = BTreeMap<&'static str, BTreeSet<String>>;

/// The chains, sets and map elements of one table, for all Services.
pub(super) struct Chains {
    family: Family,
    /// Chains and sets, which rules and elements refer to.
    pub(super) declared: String,
    pub(super) rules: String,
    pub(super) elements: Elements,
}

/// The destinations of packets to a Service port.
struct Policy<'a> {
    /// Chain for clients in the cluster, and for all clients unless a policy differs.
    chain: String,
    to: &'a [SocketAddr],
}

impl Chains {
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            declared: String::new(),
            rules: String::new(),
            elements: Elements::new(),
        }
    }

    pub(super) fn add(&mut self, service: &ServiceRule) {
        let frontends: Vec<&Frontend> = service
            .frontends
            .iter()
            .filter(|at| self.family.is(at.is_ipv6()))
            .collect();
        let all = self.family.own(&service.backends);
        let local = service.local.as_ref().map(|local| self.family.own(local));
        let name = chain_name(service);
        let protocol = protocol(service);
        for to in &all {
            let hairpin = format!("{0} . {0} . {protocol} . {1}", to.ip(), to.port());
            self.insert("hairpin-connections", hairpin);
        }
        let cluster = Policy {
            chain: format!("service-{name}"),
            to: &all,
        };
        let external = Policy {
            chain: local
                .as_ref()
                .map_or_else(|| cluster.chain.clone(), |_| format!("local-{name}")),
            to: local.as_deref().unwrap_or(&all),
        };
        if frontends.is_empty() {
            return;
        }
        self.policy(service, &name, &cluster);
        if local.is_some() {
            self.policy(service, &name, &external);
        }
        let outside = format!("external-{name}");
        if frontends
            .iter()
            .any(|at| !matches!(at, Frontend::ClusterIp(_)))
            && !external.to.is_empty()
        {
            self.external(&outside, &cluster.chain, &external.chain, local.is_some());
        }
        for frontend in frontends {
            if let Frontend::ClusterIp(vip) = frontend {
                self.insert("cluster-ips", vip.ip().to_string());
            }
            let (key, of_address) = match frontend {
                Frontend::ClusterIp(vip) | Frontend::External(vip) => {
                    (format!("{} . {protocol} . {}", vip.ip(), vip.port()), true)
                }
                Frontend::NodePort { port, .. } => (format!("{protocol} . {port}"), false),
            };
            let (chain, policy) = match frontend {
                Frontend::ClusterIp(_) => (&cluster.chain, &cluster),
                _ => (&outside, &external),
            };
            let refused = if all.is_empty() {
                "goto reject-chain"
            } else {
                "drop"
            };
            let (set, element) = match (policy.to.is_empty(), of_address) {
                (false, true) => ("service-ips", format!("{key} : goto {chain}")),
                (false, false) => ("service-nodeports", format!("{key} : goto {chain}")),
                (true, true) => ("no-endpoint-services", refusal(&key, service, refused)),
                (true, false) => ("no-endpoint-nodeports", refusal(&key, service, refused)),
            };
            self.insert(set, element);
        }
    }

    /// Adds the chain that chooses an endpoint.
    fn policy(&mut self, service: &ServiceRule, name: &str, policy: &Policy<'_>) {
        let Policy { chain, to } = policy;
        if to.is_empty() {
            return;
        }
        self.declare(chain);
        if service.affinity {
            return self.affinity(service, name, policy);
        }
        let ip = self.family.name();
        let protocol = protocol(service);
        let choices = to
            .iter()
            .enumerate()
            .map(|(index, to): (usize, &SocketAddr)| {
                format!("{index} : {} . {}", to.ip(), to.port())
            })
            .collect::<Vec<_>>()
            .join(" , ");
        let count = to.len();
        self.rule(
            chain,
            &format!(
                "meta l4proto {protocol} dnat {ip} addr . port to numgen inc mod {count} map {{ {choices} }}"
            ),
        );
    }

    /// A client keeps its endpoint: each has a chain, and a set of the clients that it has served.
    fn affinity(&mut self, service: &ServiceRule, name: &str, Policy { chain, to }: &Policy<'_>) {
        let ip = self.family.name();
        let address = self.family.address();
        let protocol = protocol(service);
        for to in *to {
            let endpoint = format!("endpoint-{}", endpoint_name(name, to));
            let affinity = format!("affinity-{}", endpoint_name(name, to));
            let timeout = "flags dynamic,timeout ; timeout 10800s ;";
            let _ = writeln!(
                self.declared,
                "add set {ip} kube-proxy {affinity} {{ type {address} ; {timeout} }}"
            );
            let known = self
                .declared
                .contains(&format!("add chain {ip} kube-proxy {endpoint}\n"));
            if !known {
                self.declare(&endpoint);
                self.rule(&endpoint, &format!("update @{affinity} {{ {ip} saddr }}"));
                self.rule(&endpoint, &format!("meta l4proto {protocol} dnat to {to}"));
            }
            self.rule(chain, &format!("{ip} saddr @{affinity} goto {endpoint}"));
        }
        let choices = to
            .iter()
            .enumerate()
            .map(|(index, to)| format!("{index} : goto endpoint-{}", endpoint_name(name, to)))
            .collect::<Vec<_>>()
            .join(" , ");
        self.rule(
            chain,
            &format!("numgen inc mod {} vmap {{ {choices} }}", to.len()),
        );
    }

    /// Adds the chain for clients outside: masqueraded, unless only endpoints of this node serve
    /// them.
    fn external(&mut self, chain: &str, cluster: &str, policy: &str, is_local: bool) {
        self.declare(chain);
        let mark = format!("meta mark set meta mark | {MASQUERADE}");
        if is_local {
            self.rule(
                chain,
                &format!("fib saddr type local {mark} comment \"masquerade local traffic\""),
            );
            self.rule(
                chain,
                &format!(
                    "fib saddr type local goto {cluster} comment \"short-circuit local traffic\""
                ),
            );
        } else {
            self.rule(chain, &mark);
        }
        self.rule(chain, &format!("goto {policy}"));
    }

    fn declare(&mut self, chain: &str) {
        let _ = writeln!(
            self.declared,
            "add chain {} kube-proxy {chain}",
            self.family.name()
        );
    }

    fn rule(&mut self, chain: &str, rule: &str) {
        let _ = writeln!(
            self.rules,
            "add rule {} kube-proxy {chain} {rule}",
            self.family.name()
        );
    }

    fn insert(&mut self, set: &'static str, element: String) {
        self.elements.entry(set).or_default().insert(element);
    }
}

/// The name of an endpoint of a Service, without the chain's or set's kind before it.
fn endpoint_name(service: &str, endpoint: &SocketAddr) -> String {
    format!("{service}__{}/{}", in_names(endpoint.ip()), endpoint.port())
}

fn refusal(key: &str, service: &ServiceRule, verdict: &str) -> String {
    format!("{key} comment \"{}\" : {verdict}", plain(&service.name))
}

fn protocol(service: &ServiceRule) -> String {
    service.protocol.as_str().to_lowercase()
}

/// `HASH-NAMESPACE/NAME/PROTOCOL/PORT`
fn chain_name(service: &ServiceRule) -> String {
    let (named, port) = service.name.split_once(':').unwrap_or((&service.name, ""));
    let path = plain(&format!("{named}/{}/{port}", protocol(service)));
    format!("{}-{path}", hash(&path))
}

/// Eight letters or digits in kube-proxy's format; the values differ from kube-proxy's.
fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let number = hasher.finish();
    (0..8)
        .map(|place: u64| {
            let index = usize::try_from((number >> (5 * place)) & 31).unwrap_or_default();
            char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[index])
        })
        .collect()
}

/// The text with only the characters that names and comments may have.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-./:".contains(*c))
        .take(128)
        .collect()
}

#[cfg(test)]
mod tests;
