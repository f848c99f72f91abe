//! A stand-in for kube-proxy: nftables DNAT with conntrack. It changes its rules only on command, so that it can be late.

mod chains;
mod endpoints;
mod family;
mod objects;
mod ruleset;
mod service;

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::net::NetNs;

pub use endpoints::service_rules;
pub use service::{Frontend, Protocol, ServiceRule};

/// How a [`Proxy`] rewrites, besides DNAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
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
    #[must_use]
    pub fn new(netns: &NetNs, options: ProxyOptions) -> Self {
        Self {
            netns: netns.clone(),
            options,
        }
    }

    /// Replaces all rules by these, atomically. Established conntrack entries keep their backend, as with kube-proxy.
    pub fn program(&self, services: &[ServiceRule]) -> Result<()> {
        self.nft(&ruleset::script(services, self.options))
    }

    fn nft(&self, script: &str) -> Result<()> {
        let mut command = self.netns.command("nft");
        command
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot run nft (install nftables)")?;
        let mut input = child.stdin.take().context("nft has no standard input")?;
        input
            .write_all(script.as_bytes())
            .context("cannot write to nft")?;
        drop(input);
        let output = child.wait_with_output().context("cannot wait for nft")?;
        let cause = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "nft refused the rules in {}: {}",
            self.netns.name(),
            cause.trim().replace('\n', "; ")
        );
        Ok(())
    }
}
