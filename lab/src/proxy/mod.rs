//! A stand-in for kube-proxy: nftables DNAT with conntrack. It changes its rules only on command, so that it can be late.

mod chains;
mod endpoints;
mod ruleset;
mod service;

use anyhow::{Result, ensure};

use crate::net::NetNs;
use crate::process;

pub use endpoints::service_rules;
pub use service::{Frontend, Protocol, ServiceRule};

/// How a [`Proxy`] rewrites, besides DNAT.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProxyOptions {
    /// Masquerade every Service flow (kube-proxy's `--masquerade-all`), not only `NodePort`, external and hairpin ones.
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
        Self { netns: netns.clone(), options }
    }

    /// Replaces all rules by these, atomically. Established conntrack entries keep their backend, as with kube-proxy.
    pub fn program(&self, services: &[ServiceRule]) -> Result<()> {
        let script = ruleset::script(services, self.options);
        let output = process::with_input(self.netns.command("nft").args(["-f", "-"]), &script, "nftables")?;
        ensure!(
            output.status.success(),
            "nft refused the rules in {}: {}",
            self.netns.name(),
            process::cause(&output)
        );
        Ok(())
    }
}
