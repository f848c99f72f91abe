//! Makes the calls of a story and tells what their clients saw.

use std::collections::BTreeMap;
use std::iter::Cycle;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cluster::Cluster;
use super::format::{Call, Sees, Wire};
use super::names;
use super::variant::Variant;
use crate::traffic::{self, Answer, Client, Flow, Outcome, UdpPeer};

/// Nobody waits longer for a reply that must come.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a client waits where it may see nothing; a reply takes a millisecond.
const SILENCE: Duration = Duration::from_millis(300);
/// Source ports of calls that leave the choice to us. Each is used once: the kernel may choose one again, and conntrack
/// sends what comes from there wherever it sent the call before.
const PORTS: Range<u16> = 10_000..30_000;

/// The clients of a run, with the flows and sockets that they keep.
#[derive(Debug)]
pub struct Clients {
    flows: BTreeMap<String, (Wire, Flow)>,
    sockets: BTreeMap<String, UdpPeer>,
    ports: Cycle<Range<u16>>,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            flows: BTreeMap::new(),
            sockets: BTreeMap::new(),
            ports: PORTS.cycle(),
        }
    }
}

impl Clients {
    /// Makes the requests, one after the other. What each client saw, in words of the story.
    pub fn make(
        &mut self,
        call: &Call,
        sees: &Sees,
        cluster: &Cluster,
        variant: Variant,
    ) -> Result<Vec<String>> {
        let timeout = if sees.allowed().iter().any(|word| word == "nothing") {
            SILENCE
        } else {
            PATIENCE
        };
        let ask = |_| -> Result<String> {
            Ok(words(match &call.on {
                Some(flow) => self.flow(flow)?.ask(timeout),
                None => self.request(call, timeout, cluster, variant)?,
            }))
        };
        (0..call.times).map(ask).collect()
    }

    /// Closes a kept TCP flow, so that what nobody has acknowledged is not sent again.
    pub fn silence(&mut self, flow: &str) {
        if self
            .flows
            .get(flow)
            .is_some_and(|(protocol, _)| *protocol == Wire::Tcp)
        {
            self.flows.remove(flow);
        }
    }

    fn flow(&mut self, name: &str) -> Result<&mut Flow> {
        let kept = self.flows.get_mut(name).map(|(_, flow)| flow);
        kept.with_context(|| format!("no earlier call has kept the flow {name}, or it was denied since"))
    }

    fn request(
        &mut self,
        call: &Call,
        timeout: Duration,
        cluster: &Cluster,
        variant: Variant,
    ) -> Result<Answer> {
        let host = call.from.as_deref().unwrap_or(variant.caller_host());
        let client = Client::new(cluster.topology.netns(host)?);
        let to = destination(call, host, cluster)?;
        let any: IpAddr = if to.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        if let Some(name) = &call.socket {
            if !self.sockets.contains_key(name) {
                self.sockets
                    .insert(name.clone(), client.udp(SocketAddr::new(any, 0))?);
            }
            return Ok(self.sockets[name].ask(to, timeout));
        }
        let port = call.source_port.or_else(|| self.ports.next());
        let request = traffic::Call {
            protocol: names::protocol(call.protocol),
            to,
            from: port.map(|port| SocketAddr::new(any, port)),
            timeout,
        };
        let Some(name) = &call.keep else {
            return Ok(client.call(request));
        };
        Ok(match client.open(request) {
            Ok(mut flow) => {
                let answer = flow.ask(timeout);
                self.flows.insert(name.clone(), (call.protocol, flow));
                answer
            }
            Err(unopened) => unopened,
        })
    }
}

fn destination(call: &Call, host: &str, cluster: &Cluster) -> Result<SocketAddr> {
    let to = call.call.as_deref().context("a call needs `call: WHOM`")?;
    let Some(service) = cluster.service(to) else {
        return Ok(SocketAddr::new(
            cluster.names.address(to)?,
            call.port.unwrap_or(8080),
        ));
    };
    let frontends = cluster.names.service(to)?;
    if host != "external" {
        return Ok(SocketAddr::new(frontends.vip, service.port));
    }
    let index = (0..)
        .zip(&service.protocols)
        .find(|(_, protocol)| **protocol == call.protocol);
    let (Some(first), Some((index, _))) = (frontends.node_port, index) else {
        bail!(
            "{to} has no NodePort for {:?}: only runs with `caller: nodeport` have one",
            call.protocol
        );
    };
    let node = cluster.topology.node("node-a")?;
    let address: IpAddr = if frontends.vip.is_ipv4() {
        node.ipv4.into()
    } else {
        node.ipv6.into()
    };
    Ok(SocketAddr::new(address, first + index))
}

/// What a client saw, as a story says it.
fn words(answer: Answer) -> String {
    match answer.outcome {
        Outcome::Reply(pod) => pod,
        Outcome::Refused => "refused".into(),
        Outcome::Reset => "reset".into(),
        Outcome::Unreachable | Outcome::TimedOut => "nothing".into(),
        Outcome::Error(error) => error,
    }
}

/// For messages: `tcp call to shop/web`.
pub fn describe(call: &Call) -> String {
    let protocol = if call.protocol == Wire::Tcp { "tcp" } else { "udp" };
    match (&call.on, &call.call) {
        (Some(flow), _) => format!("request on the flow {flow}"),
        (None, to) => format!("{protocol} call to {}", to.as_deref().unwrap_or_default()),
    }
}
