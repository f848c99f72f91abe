//! A stand-in for kube-proxy: nftables DNAT with conntrack. It changes its rules only on command,
//! so that it can be late.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, ensure};

use crate::net::NetNs;
use crate::process;

mod chains;
mod endpoints;
mod ruleset;

pub use endpoints::service_rules;

/// How a [`Proxy`] rewrites, besides DNAT.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProxyOptions {
    /// Masquerade every Service flow (kube-proxy's `--masquerade-all`), not only `NodePort`,
    /// external and hairpin ones.
    pub masquerade_all: bool,
}

/// The proxy of one node.
#[derive(Clone, Debug)]
pub struct Proxy {
    netns: NetNs,
    options: ProxyOptions,
}

impl Proxy {
    /// A proxy for the node whose namespace this is. It does nothing before [`Proxy::program`].
    pub fn new(netns: &NetNs, options: ProxyOptions) -> Self {
        Self {
            netns: netns.clone(),
            options,
        }
    }

    /// Replaces all rules by these, atomically. Established conntrack entries keep their backend,
    /// as with kube-proxy.
    pub fn program(&self, services: &[ServiceRule]) -> Result<()> {
        let script = ruleset::script(services, self.options);
        let output = process::with_input(
            self.netns.command("nft").args(["-f", "-"]),
            &script,
            "nftables",
        )?;
        ensure!(
            output.status.success(),
            "nft refused the rules in {}: {}",
            self.netns.name(),
            process::cause(&output)
        );
        Ok(())
    }
}

pub use epguard_core::facts::Protocol;

/// A Service port: the addresses that clients use, and its backends. Both may mix address families;
/// each frontend uses the backends of its own family, and rejects connections if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRule {
    /// `namespace/name:port`, for comments.
    pub name: String,
    /// The protocol of frontends and backends.
    pub protocol: Protocol,
    /// Addresses that clients use.
    pub frontends: Vec<Frontend>,
    /// Pod addresses and target ports.
    pub backends: Vec<SocketAddr>,
    /// `sessionAffinity: ClientIP`.
    pub affinity: bool,
    /// `externalTrafficPolicy: Local`: the backends on this node. None: `Cluster`.
    pub local: Option<Vec<SocketAddr>>,
}

/// A rule for TCP, without frontends and backends.
impl Default for ServiceRule {
    fn default() -> Self {
        Self {
            name: String::new(),
            protocol: Protocol::Tcp,
            frontends: Vec::new(),
            backends: Vec::new(),
            affinity: false,
            local: None,
        }
    }
}

impl ServiceRule {
    /// A port of the Service `name` for TCP, and the same for UDP.
    pub fn tcp_and_udp(name: &str, frontends: &[Frontend], backends: &[SocketAddr]) -> [Self; 2] {
        [Protocol::Tcp, Protocol::Udp].map(|protocol| Self {
            name: format!("{name}:{}", protocol.as_str()),
            protocol,
            frontends: frontends.to_vec(),
            backends: backends.to_vec(),
            ..Self::default()
        })
    }

    /// `namespace/name` of the Service.
    pub fn service(&self) -> &str {
        self.name
            .rsplit_once(':')
            .map_or(&*self.name, |(service, _)| service)
    }
}

/// An address by which clients reach a Service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frontend {
    /// Cluster IP and port.
    ClusterIp(SocketAddr),
    /// External or load-balancer IP and port; masqueraded unless the traffic policy is `Local`.
    External(SocketAddr),
    /// A port on every address of the node, 127.0.0.0/8 and `::1` excepted; masqueraded likewise.
    NodePort {
        /// Any address of the family that the port is open for, usually the cluster IP.
        family: IpAddr,
        /// The node's port.
        port: u16,
    },
}

impl Frontend {
    /// True for IPv6.
    pub fn is_ipv6(&self) -> bool {
        match self {
            Self::ClusterIp(address) | Self::External(address) => address.is_ipv6(),
            Self::NodePort { family, .. } => family.is_ipv6(),
        }
    }
}
