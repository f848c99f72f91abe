//! Plays the two stories: makes their objects, waits for them, lets the callers call, and collects
//! what they and the agents have counted.

mod agents;
mod callers;
mod setup;

use super::api::{self, LOOKS};
use super::compare::since;
use super::evidence::NodeEvidence;
use super::objects::{FINISHED, PodId, Site};
use super::plan::{Caller, Cell, Family, Plan, Story, target};
use crate::agents::Fleet;
use anyhow::{Result, ensure};
use epguard_client::answers::status::Problem;
use epguard_client::shared::calls::{CallReport, CallTarget};
use epguard_client::shared::drops::Dropped;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How many calls are counted for each target.
const CALLS: u32 = 10;
/// The longest time that these take: each may wait for half a second.
const CALLING: Duration = Duration::from_secs(10);
/// The longest wait for the denials. Agents prove them within a second; the breaker's second list
/// may take some more.
const PROOFS: Duration = Duration::from_secs(30);
/// How many nodes are asked for verdicts at a time.
const ASKED: usize = 16;

/// A check that is played.
pub(super) struct Play<'a> {
    pub fleet: &'a Fleet,
    pub plan: &'a Plan,
    pub site: &'a Site,
    /// The longest wait for each step.
    pub patience: Duration,
}

/// What came of it.
pub(super) struct Played {
    /// The families that pods and Services of the cluster have.
    pub families: BTreeSet<Family>,
    /// The pod that each node calls after its end.
    pub meant: BTreeMap<String, Meant>,
    /// The live pod of each node, `namespace/name`.
    pub strangers: BTreeMap<String, String>,
    /// What the calls of each cell go to.
    pub targets: BTreeMap<Cell, Target>,
    /// What each caller reported, or why it did not.
    pub reports: BTreeMap<(String, Caller), Result<CallReport, Problem>>,
    /// What each node's agent counted since the calls began, if it has shown that.
    pub counted: BTreeMap<String, Vec<Dropped>>,
    /// What each node's agent says.
    pub nodes: BTreeMap<String, NodeEvidence>,
}

/// The finished pod that a node calls.
pub(super) struct Meant {
    /// `namespace/name`.
    pub name: String,
    /// Whether it ran on the same node.
    pub is_local: bool,
    /// Why calls to its Service prove nothing; none if they do.
    pub delisted: Option<Problem>,
}

/// What a cell's calls go to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The address that is called.
    pub call: CallTarget,
    /// The Service, `namespace/name`; none: the pod itself.
    pub service: Option<String>,
    /// The IP behind it.
    pub endpoint: IpAddr,
}

/// A pod that runs.
#[derive(Debug, Clone)]
struct Running {
    id: PodId,
    ips: Vec<IpAddr>,
}

/// The pod of a Job.
#[derive(Debug, Clone)]
struct Finished {
    /// The Job's number, from 1.
    number: usize,
    /// The node that it runs on.
    node: String,
    pod: Running,
}

/// The addresses of all Services, by their full names.
type Vips = BTreeMap<String, Vec<IpAddr>>;

/// What is known of the nodes so far: those on which all goes on, and why it does not on others.
type Unplayed = BTreeMap<(String, Caller), Problem>;

impl Play<'_> {
    /// Plays it to the end. Errors: nothing can be compared.
    pub async fn run(&self) -> Result<Played> {
        self.make_policies().await?;
        let mut unplayed = Unplayed::new();
        let strangers = self.start_strangers(&mut unplayed).await?;
        let mut vips = Vips::new();
        let jobs = self.start_jobs(&strangers, &mut vips).await?;
        let families = families(&jobs, &vips);
        ensure!(
            !families.is_empty(),
            "nothing can be compared: the pods and the Services of this cluster have no IP family in common"
        );
        self.call_first(&families, &jobs, &vips, &mut unplayed)
            .await?;
        self.finish_jobs(&jobs).await?;
        self.make_stale_services(&jobs, &strangers, &mut vips)
            .await?;
        let targets = self.targets(&families, &jobs, &strangers, &vips);
        let mut nodes = self.await_denials(&targets).await;
        let before = self.ask("before the calls").await;
        let reports = self.call_all(&targets, &unplayed).await?;
        let mut after = self.ask("after the calls").await;
        let meant = self.meant(&jobs).await?;
        let mut counted = BTreeMap::new();
        for node in &self.plan.nodes {
            if let (Some(earlier), Some(now)) = (before.drops.get(node), after.drops.get(node)) {
                counted.insert(node.clone(), since(earlier, now));
            }
            let evidence = nodes.entry(node.clone()).or_default();
            let earlier = before.passed(node);
            for (outcome, packets) in after.passed(node) {
                let earlier = earlier.get(&outcome).copied().unwrap_or_default();
                let new = packets.saturating_sub(earlier);
                evidence.passed.insert(outcome, new);
            }
            evidence.before = before.status(node).cloned();
            evidence.condition = after.conditions.remove(node);
        }
        Ok(Played {
            families,
            meant,
            strangers: strangers
                .into_iter()
                .map(|(node, pod)| (node, pod.id.full_name()))
                .collect(),
            targets,
            reports,
            counted,
            nodes,
        })
    }

    /// What each cell's calls go to.
    fn targets(
        &self,
        families: &BTreeSet<Family>,
        jobs: &[Finished],
        strangers: &BTreeMap<String, Running>,
        vips: &Vips,
    ) -> BTreeMap<Cell, Target> {
        let numbers: BTreeMap<&str, usize> = self
            .plan
            .numbered()
            .map(|(number, node)| (node, number))
            .collect();
        let mut targets = BTreeMap::new();
        for cell in self.plan.cells(families) {
            let number = numbers[&*cell.node];
            let Some(stranger) = strangers.get(&cell.node) else {
                continue;
            };
            let (service, ips) = match cell.story {
                Story::Finished => {
                    let job = job_for(jobs, &cell.node);
                    let service = finished(job.number, cell.caller);
                    (
                        Some(format!("{}/{service}", self.site.main())),
                        &job.pod.ips,
                    )
                }
                Story::Reused => (
                    Some(format!(
                        "{}/{}",
                        self.site.main(),
                        reused(number, cell.caller)
                    )),
                    &stranger.ips,
                ),
                Story::LiveService => (
                    Some(format!("{}/{}", self.site.other(), live(number))),
                    &stranger.ips,
                ),
                Story::LivePod => (None, &stranger.ips),
            };
            let called = service.as_ref().map_or(ips, |service| &vips[service]);
            if let (Some(called), Some(endpoint)) = (cell.family.of(called), cell.family.of(ips)) {
                let target = Target {
                    call: target(cell.protocol, called),
                    service,
                    endpoint,
                };
                targets.insert(cell, target);
            }
        }
        targets
    }

    /// Waits until these pods are as wanted. After the wait, returns them as they are.
    async fn wait(
        &self,
        namespace: &str,
        names: &[String],
        is_done: fn(&Pod) -> bool,
    ) -> Result<Vec<Pod>> {
        self.wait_for(self.patience, namespace, names, is_done)
            .await
    }

    async fn wait_for(
        &self,
        longest: Duration,
        namespace: &str,
        names: &[String],
        is_done: fn(&Pod) -> bool,
    ) -> Result<Vec<Pod>> {
        let until = Instant::now() + longest;
        loop {
            let mut pods = api::pods(self.fleet, namespace).await?;
            pods.retain(|pod| names.contains(&pod.name_any()));
            let done = pods.iter().filter(|pod| is_done(pod)).count();
            if done == names.len() || Instant::now() >= until {
                return Ok(pods);
            }
            sleep(LOOKS).await;
        }
    }
}

/// The Job whose pod a node calls: that of another node, if there is one.
fn job_for<'a>(jobs: &'a [Finished], node: &str) -> &'a Finished {
    let mut others = jobs.iter().filter(|job| job.node != node);
    others.next().unwrap_or(&jobs[0])
}

/// The name of a Job, and the role of its pod.
fn job(number: usize) -> String {
    format!("{FINISHED}-{number}")
}

/// The Service of a finished pod that a caller calls.
fn finished(number: usize, caller: Caller) -> String {
    format!("{FINISHED}-{number}-{caller}")
}

/// The Service with a slice that is out of date, for a node's caller.
fn reused(number: usize, caller: Caller) -> String {
    format!("reused-{number}-{caller}")
}

/// The live pod of a node.
pub(super) fn stranger(number: usize) -> String {
    format!("stranger-{number}")
}

/// Its Service.
fn live(number: usize) -> String {
    format!("live-{number}")
}

/// The families that both the pods and their Services have.
fn families(jobs: &[Finished], vips: &Vips) -> BTreeSet<Family> {
    let mut families: BTreeSet<Family> = Family::ALL.into();
    families.retain(|family| {
        let have_pods = jobs.iter().all(|job| family.of(&job.pod.ips).is_some());
        have_pods && vips.values().all(|ips| family.of(ips).is_some())
    });
    families
}

/// The problem of a pod that is listed no more.
fn gone(namespace: &str, name: &str) -> Problem {
    Problem::new(
        format!("the check's pod {namespace}/{name} is gone"),
        "something deletes pods there, such as an eviction or a policy: run the check again",
    )
}
