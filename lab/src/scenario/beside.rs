//! The neighbour of a story on its stage.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cluster::Cluster;
use super::format::{Call, Forbidden, NeighbourStep};
use super::stage::Stage;
use super::traffic::{Aim, destination};
use crate::neighbour::{Counts, ForbiddenFlow, Neighbour, NeighbourKind};
use crate::wait;

impl Stage {
    /// The interfaces of node-a at whose ingress other programs than epguard's are.
    pub(super) fn shared_entrances(&self) -> BTreeSet<&str> {
        let balancer = self
            .cluster
            .balancer
            .as_ref()
            .and_then(|balancer| balancer.packets.as_ref());
        self.neighbour
            .iter()
            .chain(balancer)
            .flat_map(Neighbour::at_ingress)
            .collect()
    }

    /// Waits until the agent knows at which interfaces other programs are, and that none is
    /// elsewhere.
    ///
    /// Errors: it does not in time, or shows no status.
    pub fn await_entrances(&self) -> Result<()> {
        let wanted = self.shared_entrances();
        wait::until(Duration::from_millis(20), || {
            let status = self.agent.status()?;
            let seen: BTreeSet<&str> = status.unanswered.iter().map(|it| &*it.interface).collect();
            let is_new = status
                .unanswered
                .iter()
                .any(|it| it.why.starts_with("not checked"));
            Ok((is_new || seen != wanted).then(|| {
                format!(
                    "other programs are at {wanted:?}, and the status shows {:?}",
                    status.unanswered
                )
            }))
        })
    }

    /// Makes an event happen to the story's neighbour.
    pub fn neighbour(&mut self, step: NeighbourStep) -> Result<()> {
        // Links of removed interfaces cannot be taken over.
        self.hook_neighbour(false)?;
        let neighbour = self
            .neighbour
            .as_mut()
            .context("the story has no `neighbour`")?;
        match step {
            NeighbourStep::Killed => neighbour.kill(),
            NeighbourStep::Stops => neighbour.stop()?,
            NeighbourStep::Starts | NeighbourStep::Restarts => {
                neighbour.start()?;
                let flows = self
                    .forbids
                    .iter()
                    .map(|forbidden| flow(forbidden, &self.cluster));
                neighbour.forbid(&flows.collect::<Result<Vec<_>>>()?)?;
                self.hook_neighbour(false)?;
            }
        }
        Ok(())
    }

    /// Lets the neighbour, if there is one, hook the interfaces of node-a, and drop the entries of
    /// removed ones. `epguard_is_there`: whether epguard has hooked them all.
    pub(super) fn hook_neighbour(&mut self, epguard_is_there: bool) -> Result<()> {
        let Self {
            neighbour: Some(neighbour),
            cluster,
            ..
        } = self
        else {
            return Ok(());
        };
        let mut interfaces = cluster.links();
        let uplinks = cluster.topology.uplinks();
        if neighbour.kind().is_everywhere() {
            interfaces.extend(uplinks);
        }
        if neighbour.kind().is_at_tunnel() {
            interfaces = uplinks.iter().skip(1).copied().collect();
        }
        neighbour.hook(&interfaces, epguard_is_there)?;
        if neighbour.kind() != NeighbourKind::HostRouting || !neighbour.is_attached() {
            return Ok(());
        }
        let node = &cluster.topology.node("node-a")?.netns;
        let mut routes = BTreeMap::new();
        for (alias, pod) in cluster.local_pods() {
            let ifindex = node.run(|| nix::net::if_::if_nametoindex(&*pod.host_ifname))??;
            for port in &cluster.cast[alias].ports {
                routes.extend(
                    pod.ips
                        .iter()
                        .map(|ip| (SocketAddr::new(*ip, *port), ifindex)),
                );
            }
        }
        neighbour.route(&routes)
    }
}

/// Checks what the neighbour's programs have seen of one call since `before`. Its policy must drop
/// the call if it `is_forbidden`: its verdicts must be the same as without epguard. The story's
/// proxy marks no packets, and without epguard no packet has a `tc_index`.
pub(super) fn check(
    neighbour: &Neighbour,
    call: &Call,
    is_forbidden: bool,
    before: Counts,
) -> Result<()> {
    let least = if is_forbidden {
        u64::from(call.times)
    } else {
        0
    };
    // A packet is counted when its client has its answer, or a moment later.
    wait::until(Duration::from_millis(5), || {
        let now = neighbour.counts()?;
        ensure!(
            now.skipped == 0,
            "a packet carries a mark that switches the neighbour's policy off: before {before}, now {now}"
        );
        ensure!(
            is_forbidden || now.forbidden == before.forbidden,
            "the neighbour's policy drops what the story does not forbid: before {before}, now {now}"
        );
        Ok((now.forbidden < before.forbidden + least).then(|| {
            format!("the neighbour's policy has not dropped {least}: before {before}, now {now}")
        }))
    })?;
    let changed = neighbour.changed()?;
    let seen = neighbour.counts()?;
    ensure!(
        seen.keyless == 0,
        "a packet has entered at the tunnel that did not come out of it: {seen}"
    );
    ensure!(
        changed.is_empty(),
        "epguard has changed fields of packets that it let pass: {changed:?}"
    );
    ensure!(
        !neighbour.is_attached()
            || !neighbour.kind().is_everywhere()
            || seen.scrambled + seen.same > 0,
        "the neighbour's programs have seen no packet"
    );
    Ok(())
}

fn flow(forbidden: &Forbidden, cluster: &Cluster) -> Result<ForbiddenFlow> {
    let aim = Aim::tcp(forbidden.port);
    let to = destination(&forbidden.to, aim, "client", cluster)?;
    let from = match &*forbidden.from {
        "node-a" => cluster.topology.node("node-a")?.ip(to.is_ipv4()),
        "external" => cluster.topology.external_ip(to.is_ipv4())?,
        pod => cluster.names.address(pod)?,
    };
    Ok(ForbiddenFlow { from, to })
}
