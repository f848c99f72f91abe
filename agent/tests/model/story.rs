//! A history as a scenario that `cargo xtask scenario` plays. What the lab has no words for becomes a comment.

use crate::cluster::{Ip, Kubelet};
use crate::objects::{NODE_NAMES, Service, Slice};
use std::fmt::Write as _;

#[derive(Default)]
pub struct Story {
    pods: Vec<Declared>,
    steps: Vec<String>,
}

struct Declared {
    uid: String,
    is: String,
    app: &'static str,
    node: usize,
    kubelet: Kubelet,
    ip: Option<Ip>,
    next: Option<Ip>,
}

impl Story {
    pub fn pod(
        &mut self,
        uid: &str,
        namespace: &str,
        name: &str,
        app: &'static str,
        node: usize,
        kubelet: Kubelet,
    ) {
        self.pods.push(Declared {
            uid: uid.to_owned(),
            is: format!("{namespace}/{name}"),
            app,
            node,
            kubelet,
            ip: None,
            next: None,
        });
    }

    /// Something happens to a pod, in the lab's words.
    pub fn pod_step(&mut self, uid: &str, word: &str) {
        let again = self.pods.iter().any(|pod| pod.uid == uid && pod.next.is_some());
        match word {
            "new-sandbox" => self.note(&format!("{} loses its sandbox", alias(uid))),
            "sandbox-up" if again => self.step(&format!("pods: [{} new-sandbox]", alias(uid))),
            _ => self.step(&format!("pods: [{} {word}]", alias(uid))),
        }
    }

    /// The IP of a pod's first sandbox, or of its next one.
    pub fn holds(&mut self, uid: &str, ip: Option<Ip>) {
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.uid == uid) {
            if pod.ip.is_none() {
                pod.ip = ip;
            } else {
                pod.next = ip;
            }
        }
    }

    pub fn slice(&mut self, service: &Service, slice: &Slice) {
        let mut listed = Vec::new();
        for endpoint in &slice.endpoints {
            let known = |uid: &str| self.pods.iter().any(|pod| pod.uid == uid);
            match &endpoint.target {
                Some((_, uid)) if known(uid) => {
                    let condition = match (endpoint.ready, endpoint.terminating) {
                        (true, false) => "ready",
                        (_, true) => "terminating",
                        (false, false) => "not-ready",
                    };
                    listed.push(format!("{}: {condition}", alias(uid)));
                }
                other => {
                    let text = format!(
                        "a slice of {}/{} lists {} for {other:?}",
                        service.namespace, service.name, endpoint.ip
                    );
                    self.note(&text);
                    return;
                }
            }
        }
        self.step(&format!("slices: {{{}/{}: {{{}}}}}", service.namespace, service.name, listed.join(", ")));
    }

    pub fn step(&mut self, step: &str) {
        self.steps.push(format!("- {step}"));
    }

    /// What the lab cannot play.
    pub fn note(&mut self, text: &str) {
        self.steps.push(format!("# {}", text.replace('\n', " ")));
    }

    /// The file. `checks` are the calls that show what is wrong.
    pub fn yaml(&self, services: &[Service], why: &str, checks: &str) -> String {
        let mut yaml = format!(
            "id: model\ntitle: found by the model\nmust: not happen ({})\npods:\n",
            why.replace([':', '#', '\n'], " ")
        );
        for pod in &self.pods {
            let ip = pod.ip.map(name).unwrap_or_default();
            let ip = if ip.is_empty() { ip } else { format!(", ip: {ip}") };
            let next = pod.next.map(|ip| format!(", next-ip: {}", name(ip))).unwrap_or_default();
            let kubelet = match pod.kubelet {
                Kubelet::Current | Kubelet::OneBinary | Kubelet::Virtual => "",
                Kubelet::Old => ", kubelet: \"1.26\"",
            };
            let (alias, node) = (alias(&pod.uid), NODE_NAMES[pod.node]);
            let _ = writeln!(
                yaml,
                "  {alias}: {{is: {}{ip}{next}, node: {node}, labels: {{app: {}}}{kubelet}}}",
                pod.is, pod.app
            );
        }
        yaml += "services:\n";
        for service in services {
            let selector = service.selects.map(|app| format!("selector: {{app: {app}}}"));
            let _ = writeln!(
                yaml,
                "  {}/{}: {{{}}}",
                service.namespace,
                service.name,
                selector.unwrap_or_default()
            );
        }
        yaml += "steps:\n";
        for step in &self.steps {
            let _ = writeln!(yaml, "  {step}");
            if step.starts_with("- slices") {
                yaml += "  - proxy: sync\n";
            }
        }
        yaml + checks
    }
}

/// What a story calls a pod.
pub fn alias(uid: &str) -> String {
    uid.replace("uid-", "P")
}

fn name(ip: Ip) -> String {
    let [_, _, node, host] = ip.last;
    format!("X{node}-{host}")
}
