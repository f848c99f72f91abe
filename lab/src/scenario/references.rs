//! Whether the story has what a name in it stands for. Errors list what there is.

use anyhow::{Result, ensure};

use super::format::Scenario;

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

/// What a call can be aimed at.
pub(super) fn destination(scenario: &Scenario, name: &str) -> Result<()> {
    if name.contains('/') {
        return service(scenario, name);
    }
    ensure!(
        scenario.pods.contains_key(name) || symbols(scenario).any(|symbol| symbol == name),
        "{name:?} is no Service (namespace/name), pod or address of this story"
    );
    Ok(())
}

/// A pod of the story.
pub(super) fn pod(scenario: &Scenario, name: &str) -> Result<()> {
    let known = || scenario.pods.keys().cloned().collect::<Vec<_>>().join(", ");
    ensure!(
        scenario.pods.contains_key(name),
        "there is no pod {name:?} in this story; there are {}",
        known()
    );
    Ok(())
}

/// A Service of the story.
pub(super) fn service(scenario: &Scenario, name: &str) -> Result<()> {
    let known = || scenario.services.keys().cloned().collect::<Vec<_>>().join(", ");
    ensure!(
        scenario.services.contains_key(name),
        "there is no Service {name:?} in this story; there are {}",
        known()
    );
    Ok(())
}

/// The names of addresses, in the order of the pods that have them.
fn symbols(scenario: &Scenario) -> impl Iterator<Item = &String> {
    scenario
        .pods
        .values()
        .flat_map(|pod| pod.ip.iter().chain(&pod.next_ip))
}
