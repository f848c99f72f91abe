//! The kubelet of node-a and the controller of `DaemonSet`s, as far as one `DaemonSet` with one pod
//! needs them.

use epguard_lab::agent::AgentProcess;
use epguard_lab::api::{Kind, ObjectRef, Run, Store};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::cluster::Cluster;
use k8s_openapi::ByteString;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Folder of a pod's credentials.
const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";
const NODE: &str = "node-a";

pub(crate) struct Kubelet {
    api: SocketAddr,
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
    /// Gives this thread, and its children, mounts of their own: those of a node and of the agent's
    /// pod on it.
    pub(crate) fn new(cluster: &Cluster) -> Self {
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
        let config: Value = serde_json::from_str(&cluster.api.kubeconfig()).unwrap();
        let account = Path::new(ACCOUNT);
        let authority = &config["clusters"][0]["cluster"]["certificate-authority-data"];
        let authority: ByteString = serde_json::from_value(authority.clone()).unwrap();
        fs::write(account.join("ca.crt"), authority.0).unwrap();
        let token = config["users"][0]["user"]["token"].as_str().unwrap();
        fs::write(account.join("token"), token).unwrap();
        fs::write(account.join("namespace"), "epguard").unwrap();
        // Only node-a gets an agent.
        for (node, os) in [(NODE, "linux"), ("node-b", "windows")] {
            let label = json!({"metadata": {"labels": {"kubernetes.io/os": os}}});
            let patched = cluster
                .store
                .patch(&ObjectRef::new(Kind::Node, "", node), &label);
            patched.unwrap();
        }
        Self {
            api: cluster.api.address,
            running: None,
            templates: Vec::new(),
            pods: 0,
        }
    }

    /// Name of the agent's pod; empty while none runs.
    pub(crate) fn pod(&self) -> &str {
        self.running.as_ref().map_or("", |running| &running.pod)
    }

    /// Starts the pod of the `DaemonSet`, ends it when it is deleted or its template has changed,
    /// and publishes both.
    pub(crate) fn step(&mut self, cluster: &Cluster) {
        let store = &cluster.store;
        let wanted = store.get(&named(Kind::DaemonSet, "epguard"));
        if let Some(running) = self
            .running
            .take_if(|running| !running.may_go_on(store, wanted.as_ref()))
        {
            running.agent.end(libc::SIGTERM).unwrap();
            store.remove(&named(Kind::Pod, &running.pod)).unwrap();
        }
        let Some(wanted) = wanted else {
            return;
        };
        let node = &cluster.topology.node(NODE).unwrap().netns;
        let template = &wanted["spec"]["template"];
        if self.running.is_none() {
            self.pods += 1;
            if self.templates.last() != Some(template) {
                self.templates.push(template.clone());
                publish_revision(store, &wanted, self.templates.len());
            }
            self.running = Some(Running {
                agent: self.start(node, &template["spec"]),
                pod: format!("epguard-x7k2{}", self.pods),
                template: template.clone(),
            });
        }
        let probe = &template["spec"]["containers"][0]["readinessProbe"]["httpGet"];
        let is_ready = is_ready(node, probe);
        publish_pod(store, self.pod(), NODE, template, is_ready);
        publish_status(store, &wanted, is_ready);
    }

    fn start(&self, node: &NetNs, spec: &Value) -> AgentProcess {
        assert_eq!(spec["hostNetwork"], true);
        assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
        let container = &spec["containers"][0];
        let epguard = epguard_lab::process::epguard().unwrap();
        let mut command: Command = node.command(epguard);
        let arguments = container["args"].as_array().unwrap().iter();
        command.args(arguments.map(|argument| resolved(argument.as_str().unwrap(), spec)));
        let variables = container["env"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        command
            .envs(
                variables
                    .filter_map(|variable| text(&variable["name"]).zip(text(&variable["value"]))),
            )
            .env("KUBERNETES_SERVICE_HOST", self.api.ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", self.api.port().to_string());
        AgentProcess::start(command, Path::new("/run")).unwrap()
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

/// Lets the API server run commands in the agent's pod: with this thread's mounts, and in the
/// node's network namespace.
pub(crate) fn runs_commands(cluster: &Cluster) {
    let node = cluster.topology.node(NODE).unwrap().netns.clone();
    let mounts = Arc::new(fs::File::open("/proc/thread-self/ns/mnt").unwrap());
    let epguard = epguard_lab::process::epguard().unwrap();
    cluster.api.api.execs.answer(move |exec| {
        assert_eq!(exec.command[0], "epguard");
        let mut command = node.command(&epguard);
        command.args(&exec.command[1..]);
        let mounts = Arc::clone(&mounts);
        // SAFETY: the closure only makes the system call setns, which is async-signal-safe, and
        // converts its error without allocating.
        unsafe {
            command.pre_exec(move || {
                setns(&*mounts, CloneFlags::CLONE_NEWNS).map_err(std::io::Error::from)
            });
        }
        Run::Process(command)
    });
}

/// Lets the API server show the log of the agents, as this thread's mounts have it.
pub(crate) fn shows_logs(cluster: &Cluster) {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let path = Path::new("/proc").join(thread).join("root/run/agent.log");
    cluster.api.api.log.set(path).unwrap();
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

/// With the container's variables; a path in one of its volumes is the host's.
fn resolved(argument: &str, spec: &Value) -> String {
    let mut resolved = argument.to_owned();
    let all = |list: &Value| list.as_array().unwrap().clone();
    let container = &spec["containers"][0];
    for variable in all(&container["env"]) {
        let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let value = match field {
            Some("spec.nodeName") => NODE,
            Some("status.hostIP") => "192.0.2.1",
            _ => variable["value"].as_str().unwrap(),
        };
        resolved = resolved.replace(&format!("$({})", variable["name"].as_str().unwrap()), value);
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

/// The result of the kubelet's probe.
fn is_ready(node: &NetNs, probe: &Value) -> bool {
    let address = format!("{}:{}", probe["host"].as_str().unwrap(), probe["port"]);
    let asked = node.io(|| epguard_lab::process::get(&address, probe["path"].as_str().unwrap()));
    asked.is_ok_and(|(code, _)| code == 200)
}

/// The agents' `DaemonSet`, or an object beside it.
pub(crate) fn named(kind: Kind, name: &str) -> ObjectRef {
    ObjectRef::new(kind, "epguard", name)
}

/// The pod of a template on a node, as the API shows it.
pub(crate) fn publish_pod(store: &Store, name: &str, node: &str, template: &Value, ready: bool) {
    let ready = if ready { "True" } else { "False" };
    let mut spec = template["spec"].clone();
    spec["nodeName"] = node.into();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": name, "namespace": "epguard", "labels": template["metadata"]["labels"]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    });
    store.apply(pod).unwrap();
}

/// The status of a `DaemonSet` whose only pod is of its newest template.
pub(crate) fn publish_status(store: &Store, set: &Value, available: bool) {
    let available = i32::from(available);
    let status = json!({"status": {
        "observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": 1,
        "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberMisscheduled": 0,
        "numberReady": available, "numberAvailable": available,
    }});
    // A command may have deleted it meanwhile.
    let _ = store.patch(&named(Kind::DaemonSet, "epguard"), &status);
}

/// Keeps a template, so that `kubectl rollout undo` finds the one before.
pub(crate) fn publish_revision(store: &Store, set: &Value, number: usize) {
    let mut template = set["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "epguard",
        "uid": set["metadata"]["uid"], "controller": true});
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "data": {"spec": {"template": template}},
        "metadata": {"name": format!("epguard-{number}"), "namespace": "epguard", "ownerReferences": [owner],
            "labels": set["spec"]["selector"]["matchLabels"]},
    });
    store.apply(revision).unwrap();
}
