//! Stages that stories have set, and what their tests need of them.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use epguard_common::{Outcome, Reason};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::stage::Stage;
use epguard_lab::scenario::variant::Variant;
use epguard_lab::scenario::{How, parse, tell};
use epguard_lab::wait;
pub(crate) use epguard_lab::wait::PATIENCE;

/// Plays a story in its first variant. It is given without `id`, `title` and `must`.
pub(crate) fn stage(story: &str) -> Stage {
    stage_as(story, None)
}

/// The same in this variant. The agent has caught up with the last step.
pub(crate) fn stage_as(story: &str, variant: impl Into<Option<Variant>>) -> Stage {
    let scenario = parse(&format!("id: stage\ntitle: t\nmust: m\n{story}"), "story").unwrap();
    let variant = variant
        .into()
        .unwrap_or_else(|| Variant::all(&scenario.runs).remove(0));
    let told = tell(&mut (), &scenario, variant, &How::default());
    let mut stage = told.unwrap_or_else(|failure| panic!("{failure:?}"));
    stage.catch_up().unwrap();
    // Nothing is redirected before the agent has looked at what else is at the interfaces.
    stage.await_entrances().unwrap();
    stage
}

/// The same in its first variant, run in another way. The agent is not waited for.
pub(crate) fn stage_with(story: &str, how: &How) -> Stage {
    let scenario = parse(&format!("id: stage\ntitle: t\nmust: m\n{story}"), "story").unwrap();
    let variant = Variant::all(&scenario.runs).remove(0);
    let told = tell(&mut (), &scenario, variant, how);
    told.unwrap_or_else(|failure| panic!("{failure:?}"))
}

/// A host's network namespace: a pod's, or a node's.
pub(crate) fn netns<'a>(stage: &'a Stage, host: &str) -> &'a NetNs {
    stage.cluster.topology.netns(host).unwrap()
}

/// A pod's IP.
pub(crate) fn ip(stage: &Stage, pod: &str) -> IpAddr {
    stage.cluster.names.pod(pod).unwrap().ip
}

/// The address and port of a Service.
pub(crate) fn vip(stage: &Stage, service: &str) -> SocketAddr {
    SocketAddr::new(stage.cluster.names.service(service).unwrap().vip, 80)
}

/// A connection of a pod, or a node.
pub(crate) fn connect_from(
    stage: &Stage,
    host: &str,
    to: SocketAddr,
) -> std::io::Result<TcpStream> {
    let stream = netns(stage, host)
        .run(|| TcpStream::connect_timeout(&to, PATIENCE))
        .unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// An address of a stage in its first variant.
pub(crate) fn v4(address: SocketAddr) -> SocketAddrV4 {
    let SocketAddr::V4(address) = address else {
        panic!("the first variant is IPv4")
    };
    address
}

/// Packets denied as `terminated` so far.
pub(crate) fn dropped(stage: &Stage) -> u64 {
    stage
        .counters()
        .unwrap()
        .of(Reason::Terminated, Outcome::Dropped)
}

/// Ends the strict reverse paths of `node-a`, by which the lab's nodes drop forged packets
/// themselves. Many nodes do not have them.
pub(crate) fn take_any_source(stage: &Stage) {
    let node = netns(stage, "node-a");
    node.run(|| {
        for interface in std::fs::read_dir("/proc/sys/net/ipv4/conf").unwrap() {
            std::fs::write(interface.unwrap().path().join("rp_filter"), "0").unwrap();
        }
    })
    .unwrap();
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    wait::until(Duration::from_millis(5), || {
        Ok((!is_so()).then(|| format!("not {what}")))
    })
    .unwrap();
}
