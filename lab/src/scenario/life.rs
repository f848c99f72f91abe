//! The events of pods, on their node and in the API, in the order that was recorded on a real
//! cluster.

use std::net::IpAddr;

use anyhow::{Context, Result};
use jiff::SignedDuration;
use serde_json::json;

use super::cluster::Cluster;
use super::format::{Kubelet, PodEvent, ServerEvent};
use super::objects::PodObject;
use crate::api::{ObjectRef, timestamp};
use crate::traffic::Server;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

impl Cluster {
    /// Makes an event happen to a pod of the story.
    pub fn pod_event(&mut self, alias: &str, event: PodEvent) -> Result<()> {
        self.clock += SECOND;
        self.try_pod_event(alias, event)
            .and_then(|()| self.serve_pods())
            .with_context(|| format!("pod {alias}"))
    }

    /// Makes an event happen to a process of a node.
    pub fn server_event(&mut self, name: &str, event: ServerEvent) -> Result<()> {
        let declared = self
            .node_servers
            .get(name)
            .with_context(|| format!("there is no server {name}"))?;
        match event {
            ServerEvent::Starts => {
                let netns = &self.topology.node(&declared.node)?.netns;
                let server = Server::start(netns, name, &declared.ports)?;
                self.servers.insert(name.into(), server);
            }
            ServerEvent::Ends => {
                self.servers.remove(name);
            }
        }
        Ok(())
    }

    fn try_pod_event(&mut self, alias: &str, event: PodEvent) -> Result<()> {
        match event {
            PodEvent::Scheduled => self.scheduled(alias),
            PodEvent::SandboxUp => {
                self.attach(alias, self.names.pod(alias)?.ip)?;
                self.edit(alias, |pod, now, _| pod.report_sandbox(true, now))
            }
            PodEvent::Plugged => self.attach(alias, self.names.pod(alias)?.ip),
            PodEvent::Published | PodEvent::Ready => self.edit(alias, Cluster::show_running),
            PodEvent::Appears => {
                self.scheduled(alias)?;
                self.edit(alias, Cluster::show_running)
            }
            PodEvent::Starts => self.each(
                alias,
                &[
                    PodEvent::Scheduled,
                    PodEvent::SandboxUp,
                    PodEvent::Published,
                ],
            ),
            PodEvent::Unready => self.edit(alias, |pod, now, _| pod.ready = (false, now.into())),
            PodEvent::Exits => {
                self.servers.remove(alias);
                self.edit(alias, |pod, now, _| pod.exit(now, 0))
            }
            PodEvent::SandboxDown => self
                .names
                .pod(alias)
                .map(drop)
                .and_then(|()| self.detach(alias)),
            PodEvent::Succeeds => self.ends(alias, "Succeeded", 0),
            PodEvent::Fails => self.ends(alias, "Failed", 1),
            PodEvent::FailsEarly => self.edit(alias, |pod, _, _| pod.phase = "Failed"),
            PodEvent::FailedByPodgc => self.edit(alias, |pod, _, _| {
                pod.phase = "Failed";
                pod.phase_by_podgc = true;
            }),
            PodEvent::Rebooted => self.edit(alias, |pod, now, _| {
                pod.exit(now, 255);
                pod.report_sandbox(false, now);
            }),
            PodEvent::Deleting => self.delete_pod(alias, None),
            PodEvent::Gone | PodEvent::ForceDeleted => self.delete_pod(alias, Some(0)),
            PodEvent::Stops => self.each(
                alias,
                &[PodEvent::Deleting, PodEvent::Succeeds, PodEvent::Gone],
            ),
            PodEvent::NewSandbox => self.new_sandbox(alias),
        }
    }

    fn each(&mut self, alias: &str, events: &[PodEvent]) -> Result<()> {
        events
            .iter()
            .try_for_each(|event| self.pod_event(alias, *event))
    }

    fn scheduled(&mut self, alias: &str) -> Result<()> {
        let declared = self.cast.get(alias).context("it is not in the story")?;
        let now = timestamp(self.clock);
        let object = PodObject {
            name: self.names.pod(alias)?.clone(),
            declared: declared.clone(),
            host_ip: self.topology.node(&declared.node)?.ip(self.names.is_ipv4()),
            created: now.clone(),
            phase: "Pending",
            phase_by_podgc: false,
            ip: None,
            ready: (false, now.clone()),
            sandbox: (declared.kubelet != Kubelet::Old).then_some((false, now)),
            container: json!({"waiting": {"reason": "ContainerCreating"}}),
        };
        self.objects.insert(alias.into(), object);
        self.publish(alias)
    }

    /// Replaces the sandbox; the kubelet still reports the old address (as recorded on 1.36).
    fn new_sandbox(&mut self, alias: &str) -> Result<()> {
        self.detach(alias)?;
        self.edit(alias, |pod, now, _| {
            pod.report_sandbox(false, now);
            pod.exit(now, 137);
        })?;
        let next = self
            .names
            .pod(alias)?
            .next_ip
            .context("its story gives it no `next-ip`")?;
        self.attach(alias, next)?;
        self.clock += SECOND;
        self.edit(alias, |pod, now, _| pod.report_sandbox(true, now))
    }

    fn show_running(pod: &mut PodObject, now: &str, held: Option<IpAddr>) {
        pod.phase = "Running";
        pod.ip = held.or(pod.ip);
        pod.ready = (true, now.into());
        pod.start(now);
        if pod.sandbox.as_ref().is_some_and(|(up, _)| !up) {
            pod.report_sandbox(true, now);
        }
    }

    fn ends(&mut self, alias: &str, phase: &'static str, code: i32) -> Result<()> {
        self.servers.remove(alias);
        self.edit(alias, |pod, now, _| pod.exit(now, code))?;
        self.detach(alias)?;
        self.clock += SECOND;
        self.edit(alias, |pod, now, _| {
            pod.phase = phase;
            pod.sandbox = Some((false, now.into()));
        })
    }

    fn delete_pod(&mut self, alias: &str, grace: Option<u32>) -> Result<()> {
        let name = self.names.pod(alias)?;
        let id = ObjectRef::pod(&name.namespace, &name.name);
        self.store.delete(&id, grace)?;
        Ok(())
    }

    fn attach(&mut self, alias: &str, ip: IpAddr) -> Result<()> {
        let declared = &self.cast[alias];
        if !declared.host_network {
            let name = self.names.pod(alias)?;
            let ips: Vec<IpAddr> = [ip].into_iter().chain(name.other_family).collect();
            self.topology.add_pod(&declared.node, alias, &ips)?;
            if let Some(ip) = name.net1 {
                self.topology.add_interface(alias, ip)?;
            }
        }
        let answer = declared.answers.as_deref().unwrap_or(alias);
        let server = Server::start(self.netns(alias)?, answer, &declared.ports)?;
        self.servers.insert(alias.into(), server);
        Ok(())
    }

    fn detach(&mut self, alias: &str) -> Result<()> {
        if self.topology.pod(alias).is_ok() {
            self.topology.remove_pod(alias)?;
        }
        self.servers.remove(alias);
        Ok(())
    }

    /// Changes the object, given the time and the address that the pod holds, and writes it to the
    /// API.
    fn edit(
        &mut self,
        alias: &str,
        edit: impl FnOnce(&mut PodObject, &str, Option<IpAddr>),
    ) -> Result<()> {
        let held = self
            .topology
            .pod(alias)
            .ok()
            .and_then(|pod| pod.ips.first().copied())
            .or_else(|| self.names.pod(alias).ok().map(|pod| pod.ip));
        let object = self
            .objects
            .get_mut(alias)
            .context("nothing has happened to it yet: let it be `scheduled`")?;
        edit(object, &timestamp(self.clock), held);
        self.publish(alias)
    }

    fn publish(&self, alias: &str) -> Result<()> {
        self.store
            .apply(self.objects[alias].render(&timestamp(self.clock)))?;
        Ok(())
    }
}
