//! Checks that the story defines every name that it uses. Errors list the defined names.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use epguard_common::{OneOf, Reason};

use super::format::{Burst, Pod, Scenario};

/// Hosts that each story has.
pub(super) const HOSTS: [&str; 3] = ["node-a", "external", "client"];

/// A pod or another host that makes calls.
pub(super) fn host(scenario: &Scenario, name: &str) -> Result<()> {
    ensure!(
        scenario.pods.contains_key(name) || HOSTS.contains(&name),
        "there is no {name:?} to call from; there are the pods of the story and {}",
        HOSTS.join(", ")
    );
    Ok(())
}

/// A destination of calls.
pub(super) fn destination(scenario: &Scenario, name: &str) -> Result<()> {
    if name.contains('/') {
        return service(scenario, name);
    }
    if name == "node-a" {
        return Ok(());
    }
    let mut symbols = scenario.pods.values().flat_map(symbols_of);
    ensure!(
        scenario.pods.contains_key(name) || symbols.any(|symbol| symbol == name),
        "{name:?} is no Service (namespace/name), pod or address of this story"
    );
    Ok(())
}

/// A pod of the story.
pub(super) fn pod(scenario: &Scenario, name: &str) -> Result<()> {
    among(&scenario.pods, "pod", name)
}

/// A Service of the story.
pub(super) fn service(scenario: &Scenario, name: &str) -> Result<()> {
    among(&scenario.services, "Service", name)
}

fn among<T>(all: &BTreeMap<String, T>, what: &str, name: &str) -> Result<()> {
    ensure!(
        all.contains_key(name),
        "there is no {what} {name:?} in this story; there are {}",
        all.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

/// Pods, hosts and reasons of a burst.
pub(super) fn burst(scenario: &Scenario, burst: &Burst) -> Result<()> {
    let denied = burst.groups.iter().filter(|group| group.denied.is_some());
    ensure!(denied.count() <= 1, "more than one group of a burst is `denied`");
    for group in &burst.groups {
        pod(scenario, &group.means)?;
        group.hit.iter().try_for_each(|name| pod(scenario, name))?;
        reason(group.denied.as_deref())?;
        ensure!(
            group.denied.is_some() == group.hit.is_some(),
            "a group of a burst has `denied` and `hit`, or none of them"
        );
    }
    burst.callers().try_for_each(|(_, caller)| {
        host(scenario, &caller.from)?;
        destination(scenario, &caller.call)
    })
}

/// A reason to deny.
pub(super) fn reason(name: Option<&str>) -> Result<()> {
    if let Some(reason) = name {
        ensure!(
            Reason::parse(reason).is_some(),
            "no denial has the reason {reason:?}: {}",
            OneOf(Reason::TO_DENY)
        );
    }
    Ok(())
}

/// The names of a pod's addresses.
pub(super) fn symbols_of(pod: &Pod) -> impl Iterator<Item = &String> {
    let first = pod.ip.iter().chain(&pod.next_ip);
    first.chain(&pod.other_family).chain(&pod.net1)
}
