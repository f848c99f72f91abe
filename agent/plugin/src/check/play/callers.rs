//! The callers: pods that call, and report when they end.

use super::{CALLING, CALLS, Finished, Play, Target, Unplayed, Vips, finished, gone, job_for};
use crate::check::api;
use crate::check::objects::Calls;
use crate::check::plan::{Caller, Cell, Family, Story, target};
use crate::check::pods;
use crate::check::progress::progress;
use anyhow::Result;
use epguard_client::answers::status::Problem;
use epguard_client::shared::calls::{CallProtocol, CallReport, CallTarget};
use epguard_client::shared::output::count;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A caller's pod.
struct Placed {
    place: (String, Caller),
    name: String,
    calls: Calls,
}

impl Placed {
    fn new(node: &str, caller: Caller, name: String, calls: Calls) -> Self {
        Self {
            place: (node.to_owned(), caller),
            name,
            calls,
        }
    }
}

impl Play<'_> {
    /// Each caller calls the pod of a Job by its Service while it serves.
    pub(super) async fn call_first(
        &self,
        families: &BTreeSet<Family>,
        jobs: &[Finished],
        vips: &Vips,
        unplayed: &mut Unplayed,
    ) -> Result<()> {
        progress("calls the Jobs' pods by their Services, while they serve");
        let mut callers = Vec::new();
        for (number, node) in self.plan.numbered() {
            for caller in &self.plan.callers {
                if unplayed.contains_key(&(node.to_owned(), *caller)) {
                    continue;
                }
                let service = finished(job_for(jobs, node).number, *caller);
                let name = format!("{}/{service}", self.site.main());
                let calls = Calls {
                    awaited: service_targets(families, &vips[&name]),
                    wait_seconds: self.seconds_to_answer(),
                    ..Calls::default()
                };
                let name = format!("first-{number}-{caller}");
                callers.push(Placed::new(node, *caller, name, calls));
            }
        }
        for (place, report) in self.call(&callers).await? {
            let problem = match report {
                Err(problem) => problem,
                Ok(report) if !report.unreached.is_empty() => Problem::new(
                    format!(
                        "its calls to a Service with a live pod are not answered, {} among them",
                        report.unreached[0]
                    ),
                    "not epguard: check kube-proxy, routes and network policies of the node",
                ),
                Ok(_) => continue,
            };
            unplayed.insert(place, problem);
        }
        Ok(())
    }

    /// Each caller calls all that its cells go to.
    pub(super) async fn call_all(
        &self,
        targets: &BTreeMap<Cell, Target>,
        unplayed: &Unplayed,
    ) -> Result<BTreeMap<(String, Caller), Result<CallReport, Problem>>> {
        let mut callers = Vec::new();
        let mut reports = BTreeMap::new();
        for (number, node) in self.plan.numbered() {
            for caller in &self.plan.callers {
                let place = (node.to_owned(), *caller);
                if let Some(problem) = unplayed.get(&place) {
                    reports.insert(place, Err(problem.clone()));
                    continue;
                }
                let mut calls = Calls {
                    wait_seconds: self.seconds_to_answer(),
                    times: CALLS,
                    ..Calls::default()
                };
                for (cell, target) in targets {
                    if cell.node == node && cell.caller == *caller {
                        calls.targets.push(target.call);
                        if cell.story == Story::LiveService {
                            calls.awaited.push(target.call);
                        }
                    }
                }
                let name = format!("call-{number}-{caller}");
                callers.push(Placed::new(node, *caller, name, calls));
            }
        }
        let most = callers.iter().map(|one| one.calls.targets.len()).max();
        let targets = count(most.unwrap_or_default(), "target");
        let who = match self.plan.callers.len() {
            1 => "node",
            _ => "caller of each node",
        };
        progress(&format!(
            "each {who} makes {CALLS} calls to each of {targets}"
        ));
        for (place, report) in self.call(&callers).await? {
            let report = match report {
                Ok(report) if !report.unreached.is_empty() => Err(Problem::new(
                    format!(
                        "its calls to a Service with a live pod are not answered, {} among them",
                        report.unreached[0]
                    ),
                    format!(
                        "not epguard, unless `kubectl epguard mode off --node {}` ends it: check kube-proxy and network policies",
                        place.0
                    ),
                )),
                report => report,
            };
            reports.insert(place, report);
        }
        Ok(reports)
    }

    /// How long a caller waits for the first answers: its pod has to start and to end, too.
    const fn seconds_to_answer(&self) -> u64 {
        let half = self.patience.as_secs() / 2;
        if half == 0 { 1 } else { half }
    }

    /// Makes pods that call, and waits for their reports.
    async fn call(
        &self,
        callers: &[Placed],
    ) -> Result<Vec<((String, Caller), Result<CallReport, Problem>)>> {
        for one in callers {
            let pod = self
                .site
                .caller(&one.name, &one.place.0, one.place.1, &one.calls);
            api::create::<Pod>(self.fleet, &self.site.of(one.place.1), &pod).await?;
        }
        let mut ended = Vec::new();
        for caller in &self.plan.callers {
            let of_caller = callers.iter().filter(|one| one.place.1 == *caller);
            let names: Vec<String> = of_caller.map(|one| one.name.clone()).collect();
            ended.extend(
                self.wait_for(
                    self.patience + CALLING,
                    &self.site.of(*caller),
                    &names,
                    pods::is_over,
                )
                .await?,
            );
        }
        let mut reports = Vec::new();
        for one in callers {
            let pod = ended.iter().find(|pod| pod.name_any() == one.name);
            let report = match pod {
                Some(pod) => pods::report(pod),
                None => Err(gone(&self.site.of(one.place.1), &one.name)),
            };
            reports.push((one.place.clone(), report));
        }
        Ok(reports)
    }
}

fn service_targets(families: &BTreeSet<Family>, vips: &[IpAddr]) -> Vec<CallTarget> {
    let mut targets = Vec::new();
    for ip in families.iter().filter_map(|family| family.of(vips)) {
        targets.extend(CallProtocol::ALL.map(|protocol| target(protocol, ip)));
    }
    targets
}
