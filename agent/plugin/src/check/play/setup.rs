//! Makes the objects of both stories, in their order, and waits for the pods.

use super::{
    Finished, Play, Running, Unplayed, Vips, finished, gone, job, job_for, live, reused, stranger,
};
use crate::answers::name_nodes;
use crate::check::api::{self, LOOKS};
use crate::check::objects::{PodId, Site, service, slice};
use crate::check::plan::target;
use crate::check::pods;
use crate::check::progress::progress;
use anyhow::{Context as _, Result, bail};
use epguard_client::answers::status::Problem;
use epguard_client::shared::calls::CallProtocol;
use epguard_client::shared::output::count;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use tokio::time::{Instant, sleep};

impl Play<'_> {
    pub(super) async fn make_policies(&self) -> Result<()> {
        for namespace in [self.site.main(), self.site.other()] {
            let policy = Site::network_policy();
            api::create::<NetworkPolicy>(self.fleet, &namespace, &policy).await?;
        }
        Ok(())
    }

    /// A live pod on each node. Errors: none starts.
    pub(super) async fn start_strangers(
        &self,
        unplayed: &mut Unplayed,
    ) -> Result<BTreeMap<String, Running>> {
        let namespace = self.site.other();
        for (number, node) in self.plan.numbered() {
            let name = stranger(number);
            let pod = self.site.server(&name, &name, node);
            api::create::<Pod>(self.fleet, &namespace, &pod).await?;
        }
        let what = count(self.plan.nodes.len(), "pod");
        progress(&format!("waits for {what} in namespace {namespace}"));
        let names: Vec<String> = self
            .plan
            .numbered()
            .map(|(number, _)| stranger(number))
            .collect();
        let pods = self.wait(&namespace, &names, pods::is_running).await?;
        let mut strangers = BTreeMap::new();
        let mut obstacles = Vec::new();
        for (number, node) in self.plan.numbered() {
            match running(&pods, &namespace, &stranger(number)) {
                Ok(pod) => {
                    strangers.insert(node.to_owned(), pod);
                }
                Err(problem) => {
                    for caller in &self.plan.callers {
                        unplayed.insert((node.to_owned(), *caller), problem.clone());
                    }
                    obstacles.push(problem);
                }
            }
        }
        if let (true, Some(first)) = (strangers.is_empty(), obstacles.first()) {
            let nodes = name_nodes(&self.plan.nodes);
            let Problem { what, remedy } = first;
            bail!("no pod of the check starts on {nodes}: {what}: {remedy}");
        }
        Ok(strangers)
    }

    /// Starts a Job on the first node that runs pods, and one on the second: so that a node can call
    /// the pod of another one. Behind a bridge no packet leaves for an unused IP of the own node.
    pub(super) async fn start_jobs(
        &self,
        strangers: &BTreeMap<String, Running>,
        vips: &mut Vips,
    ) -> Result<Vec<Finished>> {
        let namespace = self.site.main();
        let homes: Vec<&String> = strangers.keys().take(2).collect();
        for (number, node) in (1..).zip(&homes) {
            let role = job(number);
            for caller in &self.plan.callers {
                let name = finished(number, *caller);
                self.make_service(&namespace, &name, Some(&role), vips)
                    .await?;
            }
            api::create::<Job>(self.fleet, &namespace, &self.site.job(&role, node)).await?;
        }
        let what = count(homes.len(), "Job");
        progress(&format!(
            "waits for the pods of {what} in namespace {namespace}"
        ));
        let until = Instant::now() + self.patience;
        loop {
            let pods = api::pods(self.fleet, &namespace).await?;
            let mut started = Vec::new();
            for (number, node) in (1..).zip(&homes) {
                let prefix = format!("{}-", job(number));
                let mut of_job = pods
                    .iter()
                    .filter(|pod| pod.name_any().starts_with(&prefix));
                if let Some(pod) = of_job.find(|pod| pods::is_running(pod)) {
                    started.push(Finished {
                        number,
                        node: (*node).clone(),
                        pod: running_pod(pod)?,
                    });
                }
            }
            if started.len() == homes.len() {
                return Ok(started);
            }
            if Instant::now() >= until {
                let mut late = pods.iter().filter(|pod| !pods::is_running(pod));
                let Problem { what, remedy } = late.next().map_or_else(no_pod, pods::obstacle);
                bail!("a Job in {namespace} does not start: {what}: {remedy}");
            }
            sleep(LOOKS).await;
        }
    }

    /// Ends the servers of the Jobs, and waits until their kubelets show that the pods are over.
    pub(super) async fn finish_jobs(&self, jobs: &[Finished]) -> Result<()> {
        for Finished { number, node, pod } in jobs {
            let ip = *pod.ips.first().context("the Job's pod shows no IP")?;
            let server = target(CallProtocol::Tcp, ip);
            let ender = self.site.ender(&format!("end-{number}"), node, server);
            api::create::<Pod>(self.fleet, &self.site.other(), &ender).await?;
        }
        progress("lets its own Job pods finish");
        let names: Vec<String> = jobs.iter().map(|job| job.pod.id.name.clone()).collect();
        let pods = self.wait(&self.site.main(), &names, pods::is_over).await?;
        for job in jobs {
            let pod = pods.iter().find(|pod| pod.name_any() == job.pod.id.name);
            let Problem { what, remedy } = match pod {
                Some(pod) if pods::is_over(pod) => continue,
                Some(pod) => pods::unfinished(pod),
                None => gone(&job.pod.id.namespace, &job.pod.id.name),
            };
            bail!("{what}: {remedy}");
        }
        Ok(())
    }

    /// The Services of the second story, then those of the live pods: where these answer, a proxy
    /// has the earlier ones, too.
    pub(super) async fn make_stale_services(
        &self,
        jobs: &[Finished],
        strangers: &BTreeMap<String, Running>,
        vips: &mut Vips,
    ) -> Result<()> {
        let main = self.site.main();
        for (number, node) in self.plan.numbered() {
            let Some(live) = strangers.get(node) else {
                continue;
            };
            for caller in &self.plan.callers {
                let name = reused(number, *caller);
                self.make_service(&main, &name, None, vips).await?;
                for ip in &live.ips {
                    let dead = &job_for(jobs, node).pod.id;
                    let named = slice(&name, dead, *ip, node);
                    api::create::<EndpointSlice>(self.fleet, &main, &named).await?;
                }
            }
        }
        let other = self.site.other();
        for (number, node) in self.plan.numbered() {
            if strangers.contains_key(node) {
                let role = stranger(number);
                self.make_service(&other, &live(number), Some(&role), vips)
                    .await?;
            }
        }
        Ok(())
    }

    pub(super) async fn make_service(
        &self,
        namespace: &str,
        name: &str,
        role: Option<&str>,
        vips: &mut Vips,
    ) -> Result<()> {
        let made: Service = api::create(self.fleet, namespace, &service(name, role)).await?;
        let spec = made.spec.unwrap_or_default();
        let ips = spec.cluster_ips.unwrap_or_default();
        let ips = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
        vips.insert(format!("{namespace}/{name}"), ips);
        Ok(())
    }
}

fn running(pods: &[Pod], namespace: &str, name: &str) -> Result<Running, Problem> {
    let pod = pods.iter().find(|pod| pod.name_any() == name);
    let pod = pod.ok_or_else(|| gone(namespace, name))?;
    if !pods::is_running(pod) {
        return Err(pods::obstacle(pod));
    }
    running_pod(pod).map_err(|error| Problem::new(error.to_string(), "run the check again"))
}

/// The problem of a Job without a pod.
fn no_pod() -> Problem {
    Problem::new(
        "it has made no pod",
        "see whether kube-controller-manager runs, and a quota or a webhook forbids pods: \
         `kubectl epguard check --keep` keeps the Job with its Events",
    )
}

fn running_pod(pod: &Pod) -> Result<Running> {
    let id = PodId {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().context("a pod without UID")?,
    };
    Ok(Running {
        id,
        ips: pods::ips(pod),
    })
}
