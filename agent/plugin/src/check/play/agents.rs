//! What the agents say: the proofs before the calls, the counts around them, the status after them.

use super::{ASKED, Finished, Meant, PROOFS, Play, Target, finished, job_for};
use crate::agents::await_answer;
use crate::answers::FleetAnswers;
use crate::ask::{PATIENCE, ask_nodes};
use crate::check::api::LOOKS;
use crate::check::cause::verdict_about;
use crate::check::evidence::NodeEvidence;
use crate::check::plan::Cell;
use crate::check::progress::progress;
use anyhow::Result;
use epguard_client::answers::status::{Condition, Problem};
use epguard_client::answers::why::Explanation;
use epguard_client::shared::drops::Dropped;
use epguard_client::shared::status::Status;
use epguard_common::Outcome;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tokio::time::{Instant, sleep};

impl Play<'_> {
    /// Asks the agents until each denies all stale endpoints that its node calls, or until they
    /// have had the time for it.
    pub(super) async fn await_denials(
        &self,
        targets: &BTreeMap<Cell, Target>,
    ) -> BTreeMap<String, NodeEvidence> {
        progress("waits until the agents have proven that the endpoints are stale");
        let until = Instant::now() + PROOFS.min(self.patience);
        loop {
            let asked = stream::iter(&self.plan.nodes).map(|node| self.verdicts(node, targets));
            let all: Vec<(String, NodeEvidence)> = asked.buffer_unordered(ASKED).collect().await;
            let nodes: BTreeMap<String, NodeEvidence> = all.into_iter().collect();
            let is_denied = |cell: &Cell, target: &Target| {
                let verdicts = nodes[&cell.node].verdicts.get(&target.endpoint);
                // A node that does not answer is not waited for.
                verdicts.is_none_or(|verdicts| {
                    let protocol = cell.protocol.as_str();
                    verdict_about(verdicts, target.service.as_deref(), protocol)
                        .is_some_and(|verdict| verdict.verdict == "deny")
                })
            };
            let mut stale = targets.iter().filter(|(cell, _)| cell.story.is_stale());
            if stale.all(|(cell, target)| is_denied(cell, target)) || Instant::now() >= until {
                return nodes;
            }
            sleep(LOOKS).await;
        }
    }

    /// The verdicts of a node's agent about the stale endpoints that the node calls.
    async fn verdicts(
        &self,
        node: &str,
        targets: &BTreeMap<Cell, Target>,
    ) -> (String, NodeEvidence) {
        let mut fleet = self.fleet.clone();
        fleet.choose([node.to_owned()].into());
        fleet.shows_progress = false;
        let of_node = targets
            .iter()
            .filter(|(cell, _)| cell.node == node && cell.story.is_stale());
        let ips: BTreeSet<IpAddr> = of_node.map(|(_, target)| target.endpoint).collect();
        let namespace = self.site.main();
        let mut evidence = NodeEvidence::default();
        for ip in ips {
            let text = ip.to_string();
            let command = ["why", &text, "--namespace", &namespace];
            let asked: FleetAnswers<Explanation> = ask_nodes(&fleet, &command, PATIENCE).await;
            for answer in asked.answers {
                evidence.verdicts.insert(ip, answer.known.verdicts);
            }
        }
        (node.to_owned(), evidence)
    }

    /// What each node's agent has counted so far.
    async fn drops(&self) -> BTreeMap<String, Vec<Dropped>> {
        let asked: FleetAnswers<Vec<Dropped>> = ask_nodes(self.fleet, &["drops"], PATIENCE).await;
        let answers = asked.answers.into_iter();
        answers
            .map(|answer| (answer.agent.node, answer.known))
            .collect()
    }

    /// The finished pod of each node, and whether its Services still list it.
    pub(super) async fn meant(&self, jobs: &[Finished]) -> Result<BTreeMap<String, Meant>> {
        let api: Api<EndpointSlice> = Api::namespaced(self.fleet.client.clone(), &self.site.main());
        let all = ListParams::default();
        let list = api.list(&all);
        let slices = await_answer(
            &self.fleet.scope,
            "list endpointslices",
            "the verb list on endpointslices",
            list,
        )
        .await?
        .items;
        let mut meant = BTreeMap::new();
        for node in &self.plan.nodes {
            let job = job_for(jobs, node);
            let is_listed = self
                .plan
                .callers
                .iter()
                .all(|caller| lists(&slices, &finished(job.number, *caller), &job.pod.id.uid));
            let pod = Meant {
                name: job.pod.id.full_name(),
                is_local: job.node == *node,
                delisted: (!is_listed).then(delisted),
            };
            meant.insert(node.clone(), pod);
        }
        Ok(meant)
    }

    /// What each node's agent says of itself; in words why it does not.
    async fn conditions(&self) -> BTreeMap<String, Result<Condition, String>> {
        let asked: FleetAnswers<Condition> = ask_nodes(self.fleet, &["status"], PATIENCE).await;
        let mut conditions = BTreeMap::new();
        for answer in asked.answers {
            conditions.insert(answer.agent.node, Ok(answer.known));
        }
        let with_agent = self.fleet.node_names();
        for missing in asked.missing {
            if with_agent.contains(&&*missing.node) {
                conditions.insert(missing.node, Err(missing.why));
            }
        }
        conditions
    }

    /// What all agents have counted at this moment, and what they say of themselves.
    pub(super) async fn ask(&self, when: &str) -> Snapshot {
        progress(&format!("asks the agents what they have counted {when}"));
        Snapshot {
            drops: self.drops().await,
            conditions: self.conditions().await,
        }
    }
}

/// Whether a slice of a Service names a pod.
fn lists(slices: &[EndpointSlice], service: &str, uid: &str) -> bool {
    let mut own = slices.iter().filter(|slice| {
        let label = slice.labels().get("kubernetes.io/service-name");
        label.is_some_and(|name| name == service)
    });
    own.any(|slice| {
        let mut targets = slice
            .endpoints
            .iter()
            .flatten()
            .filter_map(|endpoint| endpoint.target_ref.as_ref());
        targets.any(|target| target.uid.as_deref() == Some(uid))
    })
}

fn delisted() -> Problem {
    Problem::new(
        "the EndpointSlice controller has removed the finished pod from the Service, so nothing is stale there",
        "run the check again: the controller does so if something else makes it sync the Service meanwhile",
    )
}

/// All agents at one moment, by node.
#[derive(Default)]
pub(super) struct Snapshot {
    pub drops: BTreeMap<String, Vec<Dropped>>,
    pub conditions: BTreeMap<String, Result<Condition, String>>,
}

impl Snapshot {
    /// The status of a node's agent, if it has shown that.
    pub fn status(&self, node: &str) -> Option<&Status> {
        match self.conditions.get(node)? {
            Ok(condition) => Some(&condition.status),
            Err(_) => None,
        }
    }

    /// Packets to suspects that a node's agent has let pass, by the cause.
    pub fn passed(&self, node: &str) -> BTreeMap<Outcome, u64> {
        match self.status(node) {
            Some(status) => status.figures.passed.clone(),
            None => BTreeMap::new(),
        }
    }
}
