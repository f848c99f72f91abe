//! Configures links, addresses and routes with iproute2: one process for a whole batch.

use std::fmt::Write as _;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::NetNs;
use crate::{process, wait};

/// The lines of one `ip -batch`, for one namespace.
#[derive(Debug, Default)]
pub(super) struct Batch(String);

impl Batch {
    /// Adds a command, without the leading `ip`.
    pub(super) fn add(&mut self, line: impl AsRef<str>) -> &mut Self {
        self.0.push_str(line.as_ref());
        self.0.push('\n');
        self
    }

    /// Runs the commands in order and stops at the first that fails.
    pub(super) fn run(&self, netns: &NetNs) -> Result<()> {
        let output = ip(netns, &["-batch", "-"], &self.0)?;
        if output.status.success() {
            return Ok(());
        }
        let mut numbered = String::new();
        for (number, line) in self.0.lines().enumerate() {
            let _ = write!(numbered, " {}: {line};", number + 1);
        }
        bail!(
            "ip -batch failed in network namespace {}: {}; the batch was{numbered}",
            netns.name(),
            process::cause(&output)
        )
    }
}

impl NetNs {
    /// Runs commands of iproute2, written without the leading `ip`, and stops at the first that
    /// fails.
    pub fn ip(&self, commands: &[impl AsRef<str>]) -> Result<()> {
        let mut batch = Batch::default();
        for command in commands {
            batch.add(command);
        }
        batch.run(self)
    }

    /// The link-layer address of an interface.
    pub fn mac(&self, interface: &str) -> Result<[u8; 6]> {
        let listed = ip(self, &["-json", "link", "show", interface], "")?;
        let listed: Value = serde_json::from_slice(&listed.stdout)?;
        let octets: Vec<u8> = listed[0]["address"]
            .as_str()
            .context("the interface has no address")?
            .split(':')
            .map(|octet| u8::from_str_radix(octet, 16))
            .collect::<Result<_, _>>()?;
        octets
            .try_into()
            .map_err(|octets| anyhow!("no address of six octets: {octets:?}"))
    }
}

/// Waits until these links carry packets. A new link drops them until the kernel's link watch has
/// activated its queue, a bridge port also until it forwards, and neighbours are not solicited
/// before there is a link-local address.
pub(super) fn wait_until_ready(netns: &NetNs, links: &[&str]) -> Result<()> {
    wait::until(Duration::ZERO, || {
        let output = ip(netns, &["-json", "-details", "address", "show"], "")?;
        let states: Vec<Value> = serde_json::from_slice(&output.stdout)
            .context("`ip -json address show` printed no JSON")?;
        for name in links {
            let mut states = states.iter();
            if !states.any(|link| link["ifname"] == **name && is_ready(link)) {
                return Ok(Some(format!(
                    "link {name} of network namespace {} is not ready",
                    netns.name()
                )));
            }
        }
        Ok(None)
    })
}

fn is_ready(link: &Value) -> bool {
    let info = &link["linkinfo"];
    let addresses = link["addr_info"].as_array();
    if info["info_slave_kind"] == "bridge" {
        return link["operstate"] == "UP" && info["info_slave_data"]["state"] == "forwarding";
    }
    // A VXLAN device has no carrier to watch.
    let up = link["operstate"] == "UP" || info["info_kind"] == "vxlan";
    let has_link_local = addresses.into_iter().flatten().any(|address| {
        address["family"] == "inet6" && address["scope"] == "link" && address["tentative"] != true
    });
    up && has_link_local
}

fn ip(netns: &NetNs, arguments: &[&str], input: &str) -> Result<Output> {
    process::with_input(netns.command("ip").args(arguments), input, "iproute2")
}
