//! Small kubelets: pods that a client creates become processes in sandboxes on the lab's nodes.
//!
//! ```text
//! controllers   bind pods to nodes, make pods of Jobs and slices of Services, empty namespaces
//!   v the store
//! Kubelets      sandbox -> process -> status, as a kubelet of 1.36 writes them (lab/traces)
//! ```
//!
//! All pods run the binary `epguard`, in place of an image.

mod controllers;
mod process;
mod status;

use crate::api::{Kind, ObjectRef, Store};
use crate::net::Topology;
use crate::object::{each, name};
use anyhow::{Context, Result};
pub use process::enter_mounts;
use process::{Container, ContainerPlace};
use serde_json::Value;
use status::PodStatus;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first number of a pod's addresses in its node's ranges. Those of stories are below.
const FIRST_ADDRESS: u8 = 100;

/// The kubelets of all nodes, and the controllers that they need. Each [`Kubelets::step`] does what
/// is due. Dropping them ends all processes.
pub struct Kubelets {
    /// The image of the pods that they run; others are left alone.
    image: String,
    /// The program in it.
    program: PathBuf,
    /// Where containers report their ends, and have their logs.
    folder: PathBuf,
    /// The mounts of nodes, for pods that mount folders of their node. Without them they have those
    /// of this process, as all other pods.
    pub mounts: BTreeMap<String, Arc<File>>,
    /// The cgroups of pods, and of those in the host network; none leaves processes where they are.
    pub cgroups: Option<[PathBuf; 2]>,
    /// By `namespace/name`.
    pods: BTreeMap<String, KubeletPod>,
    next_address: u8,
}

/// A pod that has a sandbox, or had one.
struct KubeletPod {
    id: ObjectRef,
    /// Its sandbox is in the topology under its name; none in the host network, and after its end.
    has_sandbox: bool,
    /// None after its end.
    container: Option<Container>,
    status: PodStatus,
}

impl Kubelets {
    /// No pod runs yet. `folder` is for the files of containers.
    pub fn new(image: &str, program: PathBuf, folder: PathBuf) -> Self {
        Self {
            image: image.to_owned(),
            program,
            folder,
            mounts: BTreeMap::new(),
            cgroups: None,
            pods: BTreeMap::new(),
            next_address: FIRST_ADDRESS,
        }
    }

    /// Does what is due.
    pub fn step(&mut self, topology: &mut Topology, store: &Store) -> Result<()> {
        controllers::empty_namespaces(store)?;
        controllers::run_jobs(store)?;
        for object in store.list(Kind::Pod) {
            if !self.runs(&object) {
                continue;
            }
            if object["spec"]["nodeName"].is_null() {
                controllers::bind(store, &object)?;
            } else if !self.pods.contains_key(&name(&object)) {
                self.start(topology, store, &object)?;
            }
        }
        let names: Vec<String> = self.pods.keys().cloned().collect();
        for name in names {
            self.follow(&name, topology, store)
                .with_context(|| format!("pod {name}"))?;
        }
        controllers::list_endpoints(store)
    }

    /// The agents have the same image, and are started by tests.
    fn runs(&self, object: &Value) -> bool {
        matches!(arguments(object).next(), Some("check-pod" | "detach"))
            && object["spec"]["containers"][0]["image"] == *self.image
            && object["metadata"]["deletionTimestamp"].is_null()
    }

    /// Makes the sandbox and starts the container, then shows both.
    fn start(&mut self, topology: &mut Topology, store: &Store, object: &Value) -> Result<()> {
        let full_name = name(object);
        let id = ObjectRef::of(object)?;
        let node_name = object["spec"]["nodeName"].as_str().unwrap_or_default();
        let node = topology.node(node_name)?;
        let host_ips: [IpAddr; 2] = [true, false].map(|is_ipv4| node.ip(is_ipv4));
        let is_on_host = object["spec"]["hostNetwork"] == true;
        let ips = if is_on_host {
            host_ips
        } else {
            self.next_address += 1;
            [true, false].map(|is_ipv4| node.pod_ip(is_ipv4, self.next_address))
        };
        let mut status = PodStatus::new(host_ips, ips, object);
        status.sandbox_is_up();
        store.patch(&id, &status.patch())?;
        let netns = if is_on_host {
            node.netns.clone()
        } else {
            topology.add_pod(node_name, &full_name, &ips)?.netns.clone()
        };
        let report = self.folder.join(full_name.replace('/', "."));
        let cgroups = self.cgroups.as_ref();
        let mounts_node =
            each(&object["spec"]["volumes"]).any(|volume| volume["hostPath"].is_object());
        let place = ContainerPlace {
            netns: &netns,
            mounts: if mounts_node {
                self.mounts.get(node_name)
            } else {
                None
            },
            cgroup: cgroups.map(|[of_pods, of_node]| if is_on_host { of_node } else { of_pods }),
        };
        let container = Container::start(&place, &self.program, object, &report)?;
        status.started();
        store.patch(&id, &status.patch())?;
        let pod = KubeletPod {
            id,
            has_sandbox: !is_on_host,
            container: Some(container),
            status,
        };
        self.pods.insert(full_name, pod);
        Ok(())
    }

    /// Shows the end of a container, removes the sandbox, and shows the end of the pod. Ends a pod
    /// that is being deleted, or is gone.
    fn follow(&mut self, name: &str, topology: &mut Topology, store: &Store) -> Result<()> {
        let Some(pod) = self.pods.get_mut(name) else {
            return Ok(());
        };
        let object = store.get(&pod.id);
        let is_leaving = object
            .as_ref()
            .is_none_or(|object| object["metadata"]["deletionTimestamp"].is_string());
        if let Some(container) = &mut pod.container
            && let Some(end) = container.end(is_leaving)?
        {
            pod.container = None;
            pod.status.exited(&end);
            if object.is_some() {
                store.patch(&pod.id, &pod.status.patch())?;
            }
            if std::mem::take(&mut pod.has_sandbox) {
                topology.remove_pod(name)?;
            }
            pod.status.ended();
            if object.is_some() {
                store.patch(&pod.id, &pod.status.patch())?;
            }
        }
        if is_leaving && pod.container.is_none() {
            if object.is_some() {
                store.remove(&pod.id)?;
            }
            self.pods.remove(name);
        }
        Ok(())
    }

    /// The file with the log of a pod that runs, or has run, in this folder.
    pub fn log(folder: &Path, pod: &ObjectRef) -> PathBuf {
        process::log(&folder.join(format!("{}.{}", pod.namespace, pod.name)))
    }

    /// Names of the pods whose containers run.
    pub fn running(&self) -> Vec<&str> {
        let running = self.pods.iter().filter(|(_, pod)| pod.container.is_some());
        running.map(|(name, _)| name.as_str()).collect()
    }
}

/// The arguments of a pod's only container.
fn arguments(object: &Value) -> impl Iterator<Item = &str> {
    each(&object["spec"]["containers"][0]["args"]).filter_map(Value::as_str)
}
