//! Addresses, UIDs and objects of one run, by their names in the story.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::format::{Caller, Family, Pod, Scenario};
use super::objects::{self, Frontends, PodName};
use super::variant::Variant;
use crate::net::Topology;

/// The pod that makes calls without `from`. It lives from the beginning to the end.
pub const CLIENT: &str = "client";

/// The values of all names in one run.
#[derive(Clone, Debug)]
pub struct Names {
    family: Family,
    addresses: BTreeMap<String, IpAddr>,
    pods: BTreeMap<String, PodName>,
    services: BTreeMap<String, Frontends>,
    /// Pod ranges of the nodes.
    ranges: BTreeMap<String, String>,
}

impl Names {
    /// Assigns a value to every address name, pod and Service of the story.
    pub fn new(scenario: &Scenario, variant: Variant, topology: &Topology) -> Result<Self> {
        let client = client(scenario);
        let is_ipv4 = variant.family == Family::Ipv4;
        let cast: Vec<_> = scenario
            .pods
            .iter()
            .map(|(alias, pod)| (alias.as_str(), pod))
            .chain([(CLIENT, &client)])
            .collect();
        let mut addresses = BTreeMap::new();
        for (alias, pod) in &cast {
            let node = topology.node(&pod.node)?;
            let own = pod.ip.as_deref().unwrap_or(alias);
            for (symbol, is_ipv4, is_net1) in [
                (Some(own), is_ipv4, false),
                (pod.next_ip.as_deref(), is_ipv4, false),
                (pod.other_family.as_deref(), !is_ipv4, false),
                (pod.net1.as_deref(), is_ipv4, true),
            ] {
                let number = u8::try_from(10 + addresses.len()).unwrap_or(u8::MAX);
                let ip = match (pod.host_network, is_net1) {
                    (true, _) => node.ip(is_ipv4),
                    (_, true) => outside(is_ipv4, 245, number)?,
                    _ => node.pod_ip(is_ipv4, number),
                };
                symbol.map(|symbol| *addresses.entry(symbol.to_owned()).or_insert(ip));
            }
        }
        let pods = cast
            .iter()
            .zip(1..)
            .map(|((alias, pod), number)| {
                let (namespace, name) = split(&pod.is);
                let at = |symbol: &Option<String>| symbol.as_ref().map(|symbol| addresses[symbol]);
                let name = PodName {
                    namespace,
                    name,
                    uid: objects::uid(0xb0d, number),
                    ip: addresses[pod.ip.as_deref().unwrap_or(alias)],
                    next_ip: at(&pod.next_ip),
                    other_family: at(&pod.other_family),
                    net1: at(&pod.net1),
                };
                ((*alias).to_owned(), name)
            })
            .collect();
        let services = scenario
            .services
            .iter()
            .zip(10_u8..)
            .map(|((name, service), number)| {
                let vip = |is_ipv4| outside(is_ipv4, 96, number);
                let of_caller =
                    (variant.caller == Caller::Nodeport).then_some(30000 + 10 * u16::from(number));
                let other_family = service.dual_stack.then(|| vip(!is_ipv4)).transpose()?;
                let node_port = service.node_port.or(of_caller);
                Ok((
                    name.clone(),
                    Frontends {
                        vip: vip(is_ipv4)?,
                        other_family,
                        node_port,
                    },
                ))
            })
            .collect::<Result<_>>()?;
        let ranges = ["node-a", "node-b", "node-c"]
            .map(|name| {
                let ranges = topology.node(name)?.pod_cidrs();
                let own = ranges.iter().find(|(base, _)| base.is_ipv4() == is_ipv4);
                let range = own.map(|(base, length)| format!("{base}/{length}"));
                Ok((name.to_owned(), range.unwrap_or_default()))
            })
            .into_iter()
            .collect::<Result<_>>()?;
        Ok(Self {
            family: variant.family,
            addresses,
            pods,
            services,
            ranges,
        })
    }

    /// A pod of the story, or the client.
    pub fn pod(&self, alias: &str) -> Result<&PodName> {
        self.pods
            .get(alias)
            .with_context(|| format!("there is no pod {alias}"))
    }

    /// The addresses of a Service.
    pub fn service(&self, name: &str) -> Result<Frontends> {
        self.services
            .get(name)
            .copied()
            .with_context(|| format!("there is no Service {name}"))
    }

    /// An address by its own name, or by the name of the pod that has it.
    pub fn address(&self, name: &str) -> Result<IpAddr> {
        let of_pod = self.pods.get(name).map(|pod| &pod.ip);
        let ip = of_pod.or_else(|| self.addresses.get(name));
        ip.copied()
            .with_context(|| format!("there is no address {name}"))
    }

    /// True if all addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.family == Family::Ipv4
    }

    /// Replaces `${X}`, `${A}` (namespace/name), `${A.uid}`, `${A.ip}`, `${ns/service.vip}`,
    /// `${node-b.range}` and `${family}` in every text.
    pub fn expand(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => self.expand_text(text)?.into(),
            Value::Array(items) => items
                .iter()
                .map(|item| self.expand(item))
                .collect::<Result<_>>()?,
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| Ok((key.clone(), self.expand(value)?)))
                .collect::<Result<_>>()?,
            other => other.clone(),
        })
    }

    /// The same for one text.
    pub fn expand_text(&self, text: &str) -> Result<String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after
                .split_once('}')
                .with_context(|| format!("{text:?} has ${{ without }}"))?;
            expanded.push_str(before);
            expanded.push_str(&self.meaning(name)?);
            rest = after;
        }
        Ok(expanded + rest)
    }

    fn meaning(&self, name: &str) -> Result<String> {
        let (thing, part) = name.split_once('.').unwrap_or((name, ""));
        if let Some(pod) = self.pods.get(thing) {
            return Ok(match part {
                "" => format!("{}/{}", pod.namespace, pod.name),
                "uid" => pod.uid.clone(),
                "ip" => pod.ip.to_string(),
                _ => bail!("a pod has uid and ip, so ${{{name}}} means nothing"),
            });
        }
        match (self.services.get(thing), self.addresses.get(thing), part) {
            (Some(service), _, "vip") => Ok(service.vip.to_string()),
            (_, Some(address), "") => Ok(address.to_string()),
            _ if part == "range" && self.ranges.contains_key(thing) => {
                Ok(self.ranges[thing].clone())
            }
            _ if name == "family" => Ok(if self.is_ipv4() { "IPv4" } else { "IPv6" }.into()),
            _ => bail!("${{{name}}} is no address, pod, SERVICE.vip or NODE.range of this story"),
        }
    }
}

/// The pod behind [`CLIENT`]: it has addresses of both families if other pods have.
pub fn client(scenario: &Scenario) -> Pod {
    let is_dual = scenario.pods.values().any(|pod| pod.other_family.is_some());
    Pod {
        is: "clients/client".into(),
        other_family: is_dual.then(|| "client's other".into()),
        node: "node-a".into(),
        ..Pod::default()
    }
}

/// `namespace/name`.
pub fn split(name: &str) -> (String, String) {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    (namespace.into(), name.into())
}

/// An address outside of the pods' ranges: on the network of second interfaces (245), or a cluster
/// IP (96).
fn outside(is_ipv4: bool, network: u8, number: u8) -> Result<IpAddr> {
    let text = if is_ipv4 {
        format!("10.{network}.0.{number}")
    } else {
        format!("fd00:10:{network}::{number:x}")
    };
    Ok(text.parse()?)
}
