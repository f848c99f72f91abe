//! A cluster whose nodes run the `DaemonSet` of the chart and pods of the agents' image, and
//! `e2e/run` beside it.

use crate::node_b::NodeB;
use crate::quickstart::kubelet::{Kubelet, mount_as_node, runs_commands};
use crate::quickstart::published::{named, publish_status};
use epguard_lab::api::{ApiServer, Kind, ObjectRef};
use epguard_lab::kubelet::Kubelets;
use epguard_lab::process;
use epguard_lab::scenario::cluster::Cluster;
use epguard_lab::scenario::variant::Variant;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::Duration;
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const STORY: &str = "id: t\ntitle: t\nmust: m\nsteps:\n  - proxy: sync\n";
/// The image of the agents, and so of all pods that are made.
const REPOSITORY: &str = "registry.test/epguard";
const TAG: &str = "0.1.0";

/// Dropped in this order: agents and pods before the network that they are in.
pub(super) struct Rig {
    agents: [Kubelet; 2],
    pods: Kubelets,
    node_b: NodeB,
    cluster: Cluster,
    /// resourceVersions that the proxies have rules for.
    proxied: [u64; 2],
    folder: TempDir,
}

impl Rig {
    /// Two nodes without epguard.
    pub(super) fn new() -> Self {
        let scenario = epguard_lab::scenario::parse(STORY, "story").unwrap();
        let variant = Variant::all(&scenario.runs).remove(0);
        let cluster = Cluster::new(&scenario, variant).unwrap();
        let node_b = NodeB::new(&cluster);
        let folder = tempfile::tempdir().unwrap();
        let image = format!("{REPOSITORY}:{TAG}");
        let containers = folder.path().to_owned();
        let mut pods = Kubelets::new(&image, process::epguard().unwrap(), containers.clone());
        let agents = [("node-a", &cluster.api), ("node-b", &node_b.api)].map(|(node, api)| {
            let mounts = mounts_of_a_node(api);
            pods.mounts.insert(node.to_owned(), Arc::clone(&mounts));
            let folder = containers.join(node);
            fs::create_dir(&folder).unwrap();
            Kubelet::on(&cluster, node, api, &folder).with_mounts(&mounts)
        });
        let [a, b] = &agents;
        runs_commands(&cluster, &[a, b]);
        let logs = agents.iter().map(|agent| (agent.pods_begin(), agent.log()));
        let logs: BTreeMap<String, PathBuf> = logs.collect();
        cluster.api.api.logs.are_at(move |pod| {
            let mut of_agents = logs.iter();
            match of_agents.find(|(begin, _)| pod.name.starts_with(*begin)) {
                Some((_, log)) => log.clone(),
                None => Kubelets::log(&containers, pod),
            }
        });
        fs::write(folder.path().join("kubeconfig"), cluster.api.kubeconfig()).unwrap();
        Self {
            agents,
            pods,
            node_b,
            cluster,
            proxied: [0; 2],
            folder,
        }
    }

    /// A plugin that fails at once with a command line that begins so.
    pub(super) fn plugin_that_fails(&self, command: &str) -> PathBuf {
        let path = self.folder.path().join("plugin");
        let real = process::plugin().unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n\"{command}\"*) exit 1 ;;\nesac\nexec {} \"$@\"\n",
            real.display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Runs the script with this plugin to its end. Returns whether it has succeeded, and all that
    /// it has printed.
    pub(super) fn run(&mut self, plugin: &Path) -> (bool, String) {
        let root = Path::new(ROOT);
        let folder = self.folder.path();
        let printed = folder.join("printed");
        let output = File::create(&printed).unwrap();
        let programs = root.join("target/tools/clients/programs");
        let path = std::env::var("PATH").unwrap();
        let node = &self.cluster.topology.node("node-a").unwrap().netns;
        let mut script = node
            .command(root.join("e2e/run"))
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .arg("--plugin")
            .arg(plugin)
            .args(["--timeout", "120"])
            .args(["--set", &format!("image.repository={REPOSITORY}")])
            .args(["--set", &format!("image.tag={TAG}")])
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOME", folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let status = loop {
            if let Some(status) = script.try_wait().unwrap() {
                break status;
            }
            self.step();
            sleep(Duration::from_millis(5));
        };
        (status.success(), fs::read_to_string(printed).unwrap())
    }

    /// Lets the kubelets, the controllers and the proxies do what is due.
    fn step(&mut self) {
        let cluster = &mut self.cluster;
        let store = cluster.store.clone();
        let wanted = store.get(&named(Kind::DaemonSet, "epguard"));
        let mut ready = 0;
        for agent in &mut self.agents {
            ready += u32::from(agent.follow(&store, wanted.as_ref()));
        }
        if let Some(wanted) = wanted {
            publish_status(&store, &wanted, 2, ready);
        }
        self.pods.step(&mut cluster.topology, &store).unwrap();
        let seen = [Kind::Service, Kind::EndpointSlice].map(|kind| store.resource_version(kind));
        if seen != self.proxied {
            self.proxied = seen;
            cluster.sync_proxy().unwrap();
            self.node_b.sync_proxy(cluster);
        }
    }

    /// Objects with epguard's names, and processes, that are there now.
    pub(super) fn left(&mut self) -> Vec<String> {
        self.step();
        let mut left: Vec<String> = Vec::new();
        for kind in Kind::ALL {
            for object in self.cluster.store.list(*kind) {
                let id = ObjectRef::of(&object).unwrap();
                if id.namespace.starts_with("epguard") || id.name.contains("epguard") {
                    left.push(format!("{}/{id}", id.namespace));
                }
            }
        }
        left.extend(self.pods.running().into_iter().map(str::to_owned));
        let agents = self.agents.iter().map(Kubelet::pod);
        left.extend(agents.filter(|pod| !pod.is_empty()).map(str::to_owned));
        left
    }
}

/// The mounts of a node that has this API server, and of no thread.
fn mounts_of_a_node(api: &ApiServer) -> Arc<File> {
    let mounts = thread::scope(|scope| {
        let inside = scope.spawn(|| {
            mount_as_node(api);
            File::open("/proc/thread-self/ns/mnt").unwrap()
        });
        inside.join().unwrap()
    });
    Arc::new(mounts)
}
