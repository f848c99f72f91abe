//! Waits until the agents have a mode policy in force.
//!
//! An agent follows once its status shows that its maps have the `ConfigMap` as it was written. From
//! then on no packet of its node is judged by what was there before.

use super::agents::{Agent, Fleet};
use super::ask::{DOCUMENT, PATIENCE, document_of, give_way};
use super::exec;
use super::following::{Ended, Following};
use super::scope::FleetOutput;
use anyhow::{Context as _, Result};
use epguard_client::answers::status::Condition;
use epguard_client::shared::status::Status;
use epguard_core::facts::Watched;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

/// Between two questions to a node that does not follow yet.
const PAUSE: Duration = Duration::from_millis(100);
/// A node that takes longer to answer makes room for others.
const SLOW: Duration = Duration::from_secs(1);

/// A version of the mode policy that the agents have to follow.
pub struct Version<'a> {
    /// `namespace/name` of the `ConfigMap`.
    config_map: &'a str,
    /// Its resourceVersion.
    number: u64,
}

impl<'a> Version<'a> {
    /// Errors: the resourceVersion is no number, so that none can be compared with it.
    pub fn new(config_map: &'a str, version: Option<&str>) -> Result<Self> {
        let version = version.unwrap_or_default();
        let number = version.parse().with_context(|| {
            format!("the resourceVersion {version:?} of ConfigMap {config_map} is no number: see kubectl epguard status")
        })?;
        Ok(Self { config_map, number })
    }

    /// Asks all agents until they follow, or until the time is over. `missed` is what a node that
    /// has this version still lacks.
    pub async fn wait_for_nodes(
        &self,
        fleet: &Fleet,
        missed: impl Fn(&Status) -> Option<String>,
    ) -> Following {
        let began = Instant::now();
        let patience = fleet
            .scope
            .cluster
            .timeout
            .unwrap_or(Duration::from_secs(PATIENCE));
        let places = Semaphore::new(fleet.scope.parallel.into());
        let mut following = Following::of_others(fleet.missing.clone());
        let mut all = FuturesUnordered::new();
        for agent in &fleet.agents {
            let lacks = |status: &Status| self.lacks(status).or_else(|| missed(status));
            let follows = self.wait_for_node(fleet, agent, &places, began + patience, lacks);
            all.push(async move { (agent, follows.await) });
        }
        while let Some((agent, ended)) = all.next().await {
            following.add(&agent.node, ended, began.elapsed());
        }
        following.sort();
        following
    }

    async fn wait_for_node(
        &self,
        fleet: &Fleet,
        agent: &Agent,
        places: &Semaphore,
        deadline: Instant,
        lacks: impl Fn(&Status) -> Option<String>,
    ) -> Ended {
        let mut ended = Ended {
            status: None,
            lack: self.cannot_follow(agent),
        };
        if ended.lack.is_some() {
            return ended;
        }
        ended.lack = Some("no answer in time".to_owned());
        let asking = async {
            while ended.lack.is_some() {
                let place = places.acquire().await.ok();
                match give_way(place, SLOW, ask_for_status(fleet, agent)).await {
                    Ok(status) => {
                        ended.lack = lacks(&status);
                        ended.status = Some(status);
                    }
                    Err(error) => ended.lack = Some(error),
                }
                if ended.lack.is_some() {
                    sleep(PAUSE).await;
                }
            }
        };
        // What it lacks says whether the time is over.
        let _ = timeout_at(deadline, asking).await;
        ended
    }

    /// Why the agent cannot follow, however long the wait; none if it can.
    fn cannot_follow(&self, agent: &Agent) -> Option<String> {
        match &agent.mode_policy {
            Some(watched) if watched == self.config_map => agent.obstacle.clone(),
            Some(watched) => Some(format!("it watches ConfigMap {watched}")),
            None => Some("it watches no ConfigMap (--mode-policy)".to_owned()),
        }
    }

    /// Why the maps of a node do not have this version; none if they have.
    fn lacks(&self, status: &Status) -> Option<String> {
        let applied = status.applied.get(&Watched::ModePolicy).copied();
        if applied.is_some_and(|applied| applied >= self.number) {
            return status.mode_policy.clone();
        }
        let watch = status.watches.get(&Watched::ModePolicy);
        let down = watch.filter(|watch| !watch.up);
        let error = down.and_then(|watch| watch.error.as_deref());
        Some(match error {
            Some(error) => format!("its watch {} is down: {error}", Watched::ModePolicy),
            None if !status.synced => {
                "not every watch of it has shown a list yet; kubectl epguard status shows the cause"
                    .to_owned()
            }
            None => "its maps do not have the new version yet".to_owned(),
        })
    }
}

/// The status of a node's agent. Errors: it cannot be had, in one line.
async fn ask_for_status(fleet: &Fleet, agent: &Agent) -> Result<Status, String> {
    let command = ["epguard", "status", "-o", "json"];
    let done = exec::run(fleet, agent, &command, DOCUMENT).await?;
    // For people: what a node writes must not reach their terminal as it is.
    let (_, condition) = document_of::<Condition>(&done, agent, FleetOutput::Table)?;
    Ok(condition.status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_client::shared::status::Watch;

    fn status(applied: u64) -> Status {
        Status {
            synced: true,
            applied: [(Watched::ModePolicy, applied)].into(),
            ..Status::default()
        }
    }

    #[test]
    fn a_node_follows_once_its_maps_have_the_version_and_the_policy_is_in_force_there() {
        let version = Version::new("epguard/epguard", Some("12")).unwrap();
        let lacks = |status: &Status| version.lacks(status).unwrap_or_default();
        assert_eq!(version.lacks(&status(12)), None);
        assert_eq!(version.lacks(&status(13)), None);
        assert_eq!(
            lacks(&status(11)),
            "its maps do not have the new version yet"
        );
        let by_hand = Status {
            mode_policy: Some("a mode was set by hand".into()),
            ..status(12)
        };
        assert_eq!(lacks(&by_hand), "a mode was set by hand");
        let unsynced = Status {
            synced: false,
            applied: [].into(),
            ..status(12)
        };
        assert!(lacks(&unsynced).starts_with("not every watch of it "));
        let refused = Watch {
            error: Some("403 Forbidden".into()),
            ..Watch::default()
        };
        let down = Status {
            watches: [(Watched::ModePolicy, refused)].into(),
            ..status(11)
        };
        assert_eq!(
            lacks(&down),
            "its watch configmaps(mode-policy) is down: 403 Forbidden"
        );
        let watch = Watch {
            up: true,
            error: Some("a freshness check failed".into()),
            ..Watch::default()
        };
        let late = Status {
            watches: [(Watched::ModePolicy, watch)].into(),
            ..status(11)
        };
        assert_eq!(lacks(&late), "its maps do not have the new version yet");
    }

    #[test]
    fn a_version_that_cannot_be_compared_is_an_error() {
        assert!(Version::new("epguard/epguard", Some("abc")).is_err());
        assert!(Version::new("epguard/epguard", None).is_err());
    }
}
