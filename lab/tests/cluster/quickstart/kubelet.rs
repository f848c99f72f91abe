//! Kubelets and the controller of `DaemonSet`s, as far as one `DaemonSet` needs them.

use super::published::{named, publish_pod, publish_revision, publish_status};
use epguard_lab::agent::AgentProcess;
use epguard_lab::api::{ApiServer, Kind, ObjectRef, Run, Store};
use epguard_lab::kubelet::enter_mounts;
use epguard_lab::net::NetNs;
use epguard_lab::scenario::cluster::Cluster;
use k8s_openapi::ByteString;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Folder of a pod's credentials.
const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";
const NODE: &str = "node-a";

/// The kubelet of a node, with the agent's pod there.
pub(crate) struct Kubelet {
    node: String,
    netns: NetNs,
    api: SocketAddr,
    /// Those of the node and of the agent's pod; none: this thread's.
    mounts: Option<Arc<File>>,
    /// Where the agent's log is.
    folder: PathBuf,
    running: Option<Running>,
    /// The templates so far; the last one is the current.
    templates: Vec<Value>,
    /// How many pods have run here.
    pods: u32,
}

/// The agent of a pod.
struct Running {
    agent: AgentProcess,
    pod: String,
    template: Value,
}

impl Kubelet {
    /// That of node-a. Gives this thread, and its children, mounts of their own: those of a node
    /// and of the agent's pod on it.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        mount_as_node(&cluster.api);
        // Only node-a gets an agent.
        for (node, os) in [(NODE, "linux"), ("node-b", "windows")] {
            let label = json!({"metadata": {"labels": {"kubernetes.io/os": os}}});
            let patched = cluster
                .store
                .patch(&ObjectRef::new(Kind::Node, "", node), &label);
            patched.unwrap();
        }
        Self::on(cluster, NODE, &cluster.api, Path::new("/run"))
    }

    /// That of a node that has this API server. The mounts are this thread's.
    pub(crate) fn on(cluster: &Cluster, node: &str, api: &ApiServer, folder: &Path) -> Self {
        Self {
            node: node.to_owned(),
            netns: cluster.topology.node(node).unwrap().netns.clone(),
            api: api.address,
            mounts: None,
            folder: folder.to_owned(),
            running: None,
            templates: Vec::new(),
            pods: 0,
        }
    }

    /// The same with mounts of its own.
    pub(crate) fn with_mounts(mut self, mounts: &Arc<File>) -> Self {
        self.mounts = Some(Arc::clone(mounts));
        self
    }

    /// Name of the agent's pod; empty while none runs.
    pub(crate) fn pod(&self) -> &str {
        self.running.as_ref().map_or("", |running| &running.pod)
    }

    /// How the names of the agent's pods begin.
    pub(crate) fn pods_begin(&self) -> String {
        format!("epguard-{}-", self.node)
    }

    /// The file with the log of the agent's pods.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("agent.log")
    }

    /// Does what is due if this is the only node with an agent.
    pub(crate) fn step(&mut self, cluster: &Cluster) {
        let wanted = cluster.store.get(&named(Kind::DaemonSet, "epguard"));
        let is_ready = self.follow(&cluster.store, wanted.as_ref());
        if let Some(wanted) = wanted {
            publish_status(&cluster.store, &wanted, 1, u32::from(is_ready));
        }
    }

    /// Starts the pod of the `DaemonSet`, ends it when it is deleted or its template has changed,
    /// and publishes it. Returns whether a pod of the newest template is ready.
    pub(crate) fn follow(&mut self, store: &Store, wanted: Option<&Value>) -> bool {
        if let Some(running) = self
            .running
            .take_if(|running| !running.may_go_on(store, wanted))
        {
            running.agent.end(libc::SIGTERM).unwrap();
            store.remove(&named(Kind::Pod, &running.pod)).unwrap();
        }
        let Some(wanted) = wanted else {
            return false;
        };
        let template = &wanted["spec"]["template"];
        if self.running.is_none() {
            self.pods += 1;
            if self.templates.last() != Some(template) {
                self.templates.push(template.clone());
                publish_revision(store, wanted, self.templates.len());
            }
            self.running = Some(Running {
                agent: self.start(&template["spec"]),
                pod: format!("{}{}", self.pods_begin(), self.pods),
                template: template.clone(),
            });
        }
        let probe = &template["spec"]["containers"][0]["readinessProbe"]["httpGet"];
        let is_ready = is_ready(&self.netns, probe);
        publish_pod(store, self.pod(), &self.node, template, is_ready);
        is_ready
    }

    fn start(&self, spec: &Value) -> AgentProcess {
        assert_eq!(spec["hostNetwork"], true);
        assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
        let container = &spec["containers"][0];
        let mut command = self.epguard();
        let arguments = container["args"].as_array().unwrap().iter();
        command.args(arguments.map(|argument| self.resolved(argument.as_str().unwrap(), spec)));
        let variables = container["env"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        command
            .envs(
                variables
                    .filter_map(|variable| text(&variable["name"]).zip(text(&variable["value"]))),
            )
            .env("KUBERNETES_SERVICE_HOST", self.api.ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", self.api.port().to_string());
        AgentProcess::start(command, &self.folder).unwrap()
    }

    /// `epguard` on the node, without arguments.
    fn epguard(&self) -> Command {
        let program = epguard_lab::process::epguard().unwrap();
        let mut command = self.netns.command(program);
        if let Some(mounts) = &self.mounts {
            enter_mounts(&mut command, mounts);
        }
        command
    }

    /// With the container's variables; a path in one of its volumes is the host's.
    fn resolved(&self, argument: &str, spec: &Value) -> String {
        let mut resolved = argument.to_owned();
        let all = |list: &Value| list.as_array().unwrap().clone();
        let container = &spec["containers"][0];
        for variable in all(&container["env"]) {
            let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let value = match field {
                Some("spec.nodeName") => &self.node,
                Some("status.hostIP") => "192.0.2.1",
                _ => variable["value"].as_str().unwrap(),
            };
            resolved =
                resolved.replace(&format!("$({})", variable["name"].as_str().unwrap()), value);
        }
        for mounted in all(&container["volumeMounts"]) {
            let volumes = all(&spec["volumes"]);
            let volume = volumes
                .iter()
                .find(|volume| volume["name"] == mounted["name"])
                .unwrap();
            let inside = &mounted["mountPath"];
            let outside = &volume["hostPath"]["path"];
            resolved = resolved.replace(inside.as_str().unwrap(), outside.as_str().unwrap());
        }
        resolved
    }
}

impl Running {
    /// The `DaemonSet` has this template, and the pod is not to be deleted.
    fn may_go_on(&self, store: &Store, wanted: Option<&Value>) -> bool {
        let pod = store.get(&named(Kind::Pod, &self.pod));
        let is_deleted = pod.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        wanted.is_some_and(|wanted| wanted["spec"]["template"] == self.template) && !is_deleted
    }
}

/// Gives this thread, and its children, the mounts of a node and of the agent's pod on it, with the
/// credentials for an API server.
pub(crate) fn mount_as_node(api: &ApiServer) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let nothing = None::<&str>;
    mount(
        nothing,
        "/",
        nothing,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        nothing,
    )
    .unwrap();
    for (kind, at) in [
        ("bpf", "/sys/fs/bpf"),
        ("cgroup2", "/sys/fs/cgroup"),
        ("tmpfs", "/run"),
    ] {
        mount(nothing, at, Some(kind), MsFlags::empty(), nothing).unwrap();
    }
    fs::create_dir_all(ACCOUNT).unwrap();
    let config: Value = serde_json::from_str(&api.kubeconfig()).unwrap();
    let account = Path::new(ACCOUNT);
    let authority = &config["clusters"][0]["cluster"]["certificate-authority-data"];
    let authority: ByteString = serde_json::from_value(authority.clone()).unwrap();
    fs::write(account.join("ca.crt"), authority.0).unwrap();
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    fs::write(account.join("token"), token).unwrap();
    fs::write(account.join("namespace"), "epguard").unwrap();
}

/// Where the agent of a node runs.
struct AgentPlace {
    /// Names of its pods begin so.
    pods_begin: String,
    netns: NetNs,
    mounts: Arc<File>,
}

/// Lets the API server run commands in the pods of agents that kubelets have now and later: with
/// their mounts, and in their nodes' network namespaces.
pub(crate) fn runs_commands(cluster: &Cluster, kubelets: &[&Kubelet]) {
    let own = Arc::new(File::open("/proc/thread-self/ns/mnt").unwrap());
    let mut agents = Vec::new();
    for kubelet in kubelets {
        agents.push(AgentPlace {
            pods_begin: kubelet.pods_begin(),
            netns: kubelet.netns.clone(),
            mounts: Arc::clone(kubelet.mounts.as_ref().unwrap_or(&own)),
        });
    }
    let epguard = epguard_lab::process::epguard().unwrap();
    cluster.api.api.execs.answer(move |exec| {
        assert_eq!(exec.command[0], "epguard");
        let mut agents = agents.iter();
        let place = agents.find(|place| exec.pod.starts_with(&*place.pods_begin));
        let place = place.unwrap();
        let mut command = place.netns.command(&epguard);
        command.args(&exec.command[1..]);
        enter_mounts(&mut command, &place.mounts);
        Run::Process(command)
    });
}

/// Lets the API server show the log of the agents, as this thread's mounts have it.
pub(crate) fn shows_logs(cluster: &Cluster) {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let path = Path::new("/proc").join(thread).join("root/run/agent.log");
    cluster.api.api.logs.are_at(move |_| path.clone());
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        if let Some(running) = &self.running
            && std::thread::panicking()
        {
            eprintln!("{}", running.agent.log());
        }
    }
}

/// The result of the kubelet's probe.
fn is_ready(node: &NetNs, probe: &Value) -> bool {
    let address = format!("{}:{}", probe["host"].as_str().unwrap(), probe["port"]);
    let asked = node.io(|| epguard_lab::process::get(&address, probe["path"].as_str().unwrap()));
    asked.is_ok_and(|(code, _)| code == 200)
}
