//! Makes the calls of a story and returns their clients' results.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use epguard_common::PENDING_NS;

use super::cluster::Cluster;
use super::format::{Call, Sees, Wire};
use super::variant::Variant;
use crate::traffic::{Answer, Client, ClientCall, Flow, Outcome, UdpPeer};

/// Time limit for a reply that must come. It takes a millisecond, and on a slow machine TCP may
/// repeat a SYN after 1, 3 and 7 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for a client that may get no reply; a reply takes a millisecond.
const SILENCE: Duration = Duration::from_millis(300);
/// Source ports of calls that name none. Each is used once: the kernel may choose a port again, and
/// conntrack sends packets from such a port to the destination of the earlier call.
const PORTS: Range<u16> = 10_000..30_000;

/// A flow that stays open.
#[derive(Debug)]
struct Kept {
    protocol: Wire,
    flow: Flow,
    /// When it had made its first request.
    opened: Instant,
}

/// The clients of a run, with the flows and sockets that they keep.
#[derive(Debug, Default)]
pub struct Clients {
    flows: BTreeMap<String, Kept>,
    sockets: BTreeMap<String, UdpPeer>,
    /// The place in [`PORTS`] of the last one that was used.
    used: u16,
}

impl Clients {
    /// Makes the requests, one after the other, up to one with a result that the story does not
    /// allow. Returns each client's result in words of the story.
    pub fn make(
        &mut self,
        call: &Call,
        sees: &Sees,
        cluster: &Cluster,
        variant: Variant,
    ) -> Result<Vec<String>> {
        let timeout = if let Some(seconds) = call.within {
            Duration::from_secs_f32(seconds)
        } else if sees.allowed().iter().any(|word| word == "nothing") {
            SILENCE
        } else {
            PATIENCE
        };
        let mut answers = Vec::new();
        for _ in 0..call.times {
            let answer = word(&match (&call.on, &call.call) {
                (Some(flow), None) => self.flow(flow)?.ask(timeout),
                (None, Some(to)) => self.request(call, to, timeout, cluster, variant)?,
                _ => bail!("a call has either `call: WHOM` or `on: FLOW`"),
            });
            let is_allowed = sees.allowed().contains(&answer);
            answers.push(answer);
            if !is_allowed {
                break;
            }
        }
        Ok(answers)
    }

    /// A TCP call of a host, with a source port that no call has had.
    pub(super) fn aim(
        &mut self,
        from: &str,
        to: &str,
        timeout: Duration,
        cluster: &Cluster,
    ) -> Result<(Client, ClientCall)> {
        let to = destination(to, Aim::tcp(None), from, cluster)?;
        Ok((
            cluster.client(from, None)?,
            from_port(Some(self.next_port()), Wire::Tcp, to, timeout),
        ))
    }

    fn next_port(&mut self) -> u16 {
        self.used = (self.used + 1) % (PORTS.end - PORTS.start);
        PORTS.start + self.used
    }

    /// Closes a kept TCP flow, so that unacknowledged data is not sent again.
    pub fn silence(&mut self, flow: &str) {
        if self.is_connection(flow) {
            self.flows.remove(flow);
        }
    }

    /// Waits until the packets of a kept UDP flow count as those of its connection: what its socket
    /// sent before has left then.
    pub fn await_settled(&self, flow: &str) {
        let kept = self.flows.get(flow);
        if let Some(kept) = kept.filter(|kept| kept.protocol == Wire::Udp) {
            thread::sleep(Duration::from_nanos(PENDING_NS).saturating_sub(kept.opened.elapsed()));
        }
    }

    /// Whether it is a kept TCP flow.
    pub fn is_connection(&self, flow: &str) -> bool {
        let kept = self.flows.get(flow);
        kept.is_some_and(|kept| kept.protocol == Wire::Tcp)
    }

    fn flow(&mut self, name: &str) -> Result<&mut Flow> {
        let kept = self.flows.get_mut(name).map(|kept| &mut kept.flow);
        kept.with_context(|| {
            format!("no earlier call has kept the flow {name}, or it was denied since")
        })
    }

    fn request(
        &mut self,
        call: &Call,
        to: &str,
        timeout: Duration,
        cluster: &Cluster,
        variant: Variant,
    ) -> Result<Answer> {
        let host = call.from.as_deref().unwrap_or(variant.caller_host());
        let client = cluster.client(host, Some(call))?;
        let to = destination(to, call.into(), host, cluster)?;
        let to = match to.ip() {
            IpAddr::V4(ip) if call.mapped => SocketAddr::new(ip.to_ipv6_mapped().into(), to.port()),
            IpAddr::V6(_) if call.mapped => {
                bail!(
                    "{to} is not an IPv4 address, so it cannot be mapped: `runs` needs `family: [ipv4]`"
                )
            }
            _ => to,
        };
        if let Some(name) = &call.socket {
            if !self.sockets.contains_key(name) {
                self.sockets
                    .insert(name.clone(), client.udp(SocketAddr::new(any(to), 0))?);
            }
            return Ok(self.sockets[name].ask(to, timeout));
        }
        // A load balancer at sockets needs no conntrack entry, and clients without a source port do
        // not bind.
        let chooses = !variant.caller.is_at_sockets();
        let port = call
            .source_port
            .or_else(|| chooses.then(|| self.next_port()));
        let request = from_port(port, call.protocol, to, timeout);
        let Some(name) = &call.keep else {
            return Ok(client.call(request));
        };
        Ok(match client.open(request) {
            Ok(mut flow) => {
                let answer = flow.ask(timeout);
                let kept = Kept {
                    protocol: call.protocol,
                    flow,
                    opened: Instant::now(),
                };
                self.flows.insert(name.clone(), kept);
                answer
            }
            Err(unopened) => unopened,
        })
    }
}

/// A call from this source port, or from one that the kernel chooses.
fn from_port(port: Option<u16>, protocol: Wire, to: SocketAddr, timeout: Duration) -> ClientCall {
    let from = port.map(|port| SocketAddr::new(any(to), port));
    ClientCall {
        protocol: protocol.into(),
        to,
        from,
        timeout,
    }
}

fn any(to: SocketAddr) -> IpAddr {
    if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    }
}

/// Which of the addresses and ports of a pod or Service a call goes to.
#[derive(Clone, Copy)]
pub(super) struct Aim {
    /// The port of a pod or a node; 8080 if none is given.
    port: Option<u16>,
    /// The Service's address of the other family, if it has one.
    other_family: bool,
    protocol: Wire,
}

impl Aim {
    pub(super) fn tcp(port: Option<u16>) -> Self {
        Self {
            port,
            other_family: false,
            protocol: Wire::Tcp,
        }
    }
}

impl From<&Call> for Aim {
    fn from(call: &Call) -> Self {
        Self {
            port: call.port,
            other_family: call.other_family,
            protocol: call.protocol,
        }
    }
}

pub(super) fn destination(to: &str, aim: Aim, host: &str, cluster: &Cluster) -> Result<SocketAddr> {
    let Some(service) = cluster.services.get(to) else {
        let ip = match to {
            "node-a" | "node-b" | "node-c" => {
                cluster.topology.node(to)?.ip(cluster.names.is_ipv4())
            }
            _ => cluster.names.address(to)?,
        };
        return Ok(SocketAddr::new(ip, aim.port.unwrap_or(8080)));
    };
    let frontends = cluster.names.service(to)?;
    let vip = match frontends.other_family {
        Some(vip) if aim.other_family => vip,
        _ => frontends.vip,
    };
    if host != "external" {
        return Ok(SocketAddr::new(vip, service.port));
    }
    let index = (0..)
        .zip(&service.protocols)
        .find(|(_, served)| **served == aim.protocol);
    let (Some(first), Some((index, _))) = (frontends.node_port, index) else {
        bail!(
            "{to} has no NodePort for {:?}: give it a `node-port`, or run with `caller: nodeport`",
            aim.protocol
        );
    };
    let node = cluster.topology.node("node-a")?;
    Ok(SocketAddr::new(node.ip(vip.is_ipv4()), first + index))
}

/// A client's result as a word of the story.
pub(super) fn word(answer: &Answer) -> String {
    match &answer.outcome {
        Outcome::Reply(text) | Outcome::Error(text) => text,
        Outcome::Refused => "refused",
        Outcome::Reset => "reset",
        Outcome::Unreachable | Outcome::TimedOut => "nothing",
    }
    .to_owned()
}

/// An error if a client saw what it must not see, or did not see one of several that it must see.
pub(super) fn as_expected(sees: &Sees, answers: &[String]) -> Result<()> {
    let allowed = sees.allowed();
    let as_said = answers.iter().all(|word| allowed.contains(word));
    let complete =
        matches!(sees, Sees::Always(_)) || allowed.iter().all(|word| answers.contains(word));
    ensure!(as_said && complete, "expected {sees}, {}", summary(answers));
    Ok(())
}

/// `clients saw B (3 times)`.
pub(super) fn summary(seen: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in seen {
        *counts.entry(word).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(word, count)| format!("{word} ({count} of {})", seen.len()))
        .collect();
    format!("clients saw {}", counts.join(", "))
}

/// For messages: `tcp call to shop/web`.
pub fn describe(call: &Call) -> String {
    match (&call.on, &call.call) {
        (Some(flow), _) => format!("request on the flow {flow}"),
        (None, to) => format!(
            "{} call to {}",
            call.protocol,
            to.as_deref().unwrap_or_default()
        ),
    }
}
