//! A stand-in for kube-proxy: nftables DNAT with conntrack, programmed only when told, so that it can be late.

mod endpoints;
mod rule;

use std::net::IpAddr;

use anyhow::Result;

use crate::net::NetNs;

pub use endpoints::service_rules;
pub use rule::{Frontend, Protocol, ServiceRule};

/// How a [`Proxy`] rewrites, besides DNAT.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProxyOptions {
    /// Masquerade every Service flow (kube-proxy's `--masquerade-all`), not only `NodePort`, external and hairpin ones.
    pub masquerade_all: bool,
}

/// The proxy of one node.
#[derive(Debug)]
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

    /// Replaces all rules by these, atomically. Established conntrack entries keep their backend, as with kube-proxy.
    pub fn program(&self, services: &[ServiceRule]) -> Result<()> {
        let _ = (services, self.options, &self.netns);
        todo!()
    }

    /// Forgets the UDP conntrack entries that DNAT to `backend`, as kube-proxy should when an endpoint goes.
    pub fn flush_udp(&self, backend: IpAddr) -> Result<()> {
        let _ = backend;
        todo!()
    }
}
