//! Configures links, addresses and routes with iproute2: one process for a whole batch.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::NetNs;

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
        let cause = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        bail!(
            "ip -batch failed in network namespace {}: {cause}; the batch was{numbered}",
            netns.name()
        )
    }
}

/// Waits until these links carry packets: a new link drops them until the kernel's link watch has activated its queue, and a
/// bridge port also until it forwards.
pub(super) fn wait_until_up(netns: &NetNs, links: &[&str]) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let output = ip(netns, &["-json", "-details", "link", "show"], "")?;
        let states: Vec<Value> =
            serde_json::from_slice(&output.stdout).context("`ip -json link show` printed no JSON")?;
        let up = |name: &&str| {
            states
                .iter()
                .any(|link| link["ifname"] == **name && carries(link))
        };
        if links.iter().all(up) {
            return Ok(());
        }
        let down = links.iter().find(|name| !up(name));
        ensure!(
            Instant::now() < deadline,
            "link {down:?} of network namespace {} did not come up in 5 s",
            netns.name()
        );
    }
}

fn carries(link: &Value) -> bool {
    let port = &link["linkinfo"];
    link["operstate"] == "UP"
        && (port["info_slave_kind"] != "bridge" || port["info_slave_data"]["state"] == "forwarding")
}

fn ip(netns: &NetNs, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = netns.command("ip");
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run ip (install iproute2)")?;
    child
        .stdin
        .take()
        .context("ip has no standard input")?
        .write_all(input.as_bytes())
        .context("cannot write to ip")?;
    child.wait_with_output().context("cannot wait for ip")
}
