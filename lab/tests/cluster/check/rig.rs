//! A cluster with an agent on node-a, or one on node-b too, kubelets, and `kubectl epguard check`
//! beside them.

use super::second::SecondNode;
use crate::stage::{stage, stage_with};
use epguard_lab::api::{Exec, Kind, ObjectRef, Run};
use epguard_lab::kubelet::Kubelets;
use epguard_lab::process;
use epguard_lab::scenario::How;
use epguard_lab::scenario::stage::Stage;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The image of the agents, and so of the check's pods.
const IMAGE: &str = "registry.test/epguard:0.1.0";
/// The agents' pods.
const FIRST: &str = "epguard-x7k2p";
const SECOND: &str = "epguard-q9zt4";
/// No check takes longer.
const LONGEST: Duration = Duration::from_mins(4);

/// Dropped in this order: pods before the network that they are in.
pub(crate) struct Rig {
    kubelets: Kubelets,
    /// node-b, if an agent runs there.
    second: Option<SecondNode>,
    pub(crate) stage: Stage,
    kubeconfig: PathBuf,
    /// resourceVersions that the proxy has rules for.
    proxied: [u64; 2],
    /// Whether the proxy follows the API.
    pub(crate) has_proxy: bool,
    /// Whether pods start and end.
    pub(crate) has_kubelet: bool,
}

/// How the plugin ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// The document of `-o json`.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Rig {
    /// An agent with these options of a story, such as `{mode: observe}`.
    pub(crate) fn new(agent: &str) -> Self {
        Self::on(stage(&story(agent)))
    }

    /// The same with the agent's hooks as before Linux 6.6, and a step of the story beside.
    pub(crate) fn with_clsact(agent: &str) -> Self {
        let mut how = How::default();
        how.hooks = Some("clsact".into());
        Self::on(stage_with(&story(agent), &how))
    }

    fn on(stage: Stage) -> Self {
        let store = &stage.cluster.store;
        store.ensure_namespace("epguard").unwrap();
        store.apply(agent_pod(FIRST, "node-a")).unwrap();
        let kubeconfig = stage.workdir.path.join("plugin.kubeconfig");
        std::fs::write(&kubeconfig, stage.cluster.api.kubeconfig()).unwrap();
        let folder = stage.workdir.path.join("containers");
        std::fs::create_dir(&folder).unwrap();
        let program = process::epguard().unwrap();
        let mut rig = Self {
            kubelets: Kubelets::new(IMAGE, program, folder),
            second: None,
            stage,
            kubeconfig,
            proxied: [0; 2],
            has_proxy: true,
            has_kubelet: true,
        };
        rig.kubelets.cgroups = rig.stage.cluster.cgroups();
        rig.answer(|_| None);
        rig
    }

    /// The same beside a load balancer that translates the sockets of pods, too.
    pub(crate) fn beside_a_socket_lb(agent: &str) -> Self {
        let runs = "runs: {caller: [socket-lb-pod], family: [ipv4]}";
        Self::on(stage(&format!("{runs}\n{}", story(agent))))
    }

    /// Starts an agent on node-b too, with this mode.
    pub(crate) fn with_second_agent(mut self, mode: &str) -> Self {
        self.second = Some(SecondNode::start(&self.stage, mode));
        let store = &self.stage.cluster.store;
        store.apply(agent_pod(SECOND, "node-b")).unwrap();
        self.answer(|_| None);
        self
    }

    /// Runs commands in the agents' pods as their kubelets would, unless `instead` answers them.
    pub(crate) fn answer(
        &mut self,
        instead: impl Fn(&Exec) -> Option<Run> + Send + Sync + 'static,
    ) {
        let node = self.stage.cluster.topology.node("node-a").unwrap();
        let first = (node.netns.clone(), self.stage.workdir.path.clone());
        let second = self.second.as_ref();
        let second = second.map(|second| (second.node.netns.clone(), second.run_dir.clone()));
        let program = process::epguard().unwrap();
        self.stage.cluster.api.api.execs.answer(move |exec| {
            if let Some(run) = instead(exec) {
                return run;
            }
            let (netns, run_dir) = match &second {
                Some(second) if exec.pod == SECOND => second,
                _ => &first,
            };
            let mut command = netns.command(&program);
            command.args(&exec.command[1..]);
            command.arg("--run-dir").arg(run_dir);
            Run::Process(command)
        });
    }

    /// Runs the plugin with these words to its end.
    pub(crate) fn run(&mut self, words: &str) -> Ended {
        self.run_while(words, |_, _| ())
    }

    /// The same, with something that happens meanwhile.
    pub(crate) fn run_while(
        &mut self,
        words: &str,
        mut meanwhile: impl FnMut(&mut Self, &Child),
    ) -> Ended {
        let node = self.stage.cluster.topology.node("node-a").unwrap();
        let mut command: Command = node.netns.command(process::plugin().unwrap());
        let mut child = command
            .env("KUBECONFIG", &self.kubeconfig)
            .args(words.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            self.step();
            meanwhile(self, &child);
            if began.elapsed() > LONGEST {
                let _ = child.kill();
            }
            sleep(Duration::from_millis(5));
        };
        let text = |from: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            from.unwrap().read_to_string(&mut text).unwrap();
            text
        };
        let out = text(
            child
                .stdout
                .as_mut()
                .map(|out| out as &mut dyn std::io::Read),
        );
        let err = text(
            child
                .stderr
                .as_mut()
                .map(|err| err as &mut dyn std::io::Read),
        );
        let code = status.code().unwrap_or(-1);
        println!("kubectl epguard {words}: {code}\n{out}{err}");
        if code != 0 {
            self.print_evidence();
        }
        Ended { code, out, err }
    }

    /// What the agent has counted, for a test that fails.
    fn print_evidence(&self) {
        let agent = &self.stage.agent;
        println!("{:#?}", agent.drops());
        let dump = agent.dump().unwrap_or_default();
        for counter in dump["counters"].as_array().into_iter().flatten() {
            if counter["packets"] != 0 {
                println!("{counter}");
            }
        }
        println!("{}\n{}", dump["denied"], agent.log());
    }

    /// Lets the kubelets, the controllers and the proxy do what is due.
    pub(crate) fn step(&mut self) {
        let cluster = &mut self.stage.cluster;
        if self.has_kubelet {
            let store = cluster.store.clone();
            self.kubelets.step(&mut cluster.topology, &store).unwrap();
            cluster.serve_pods().unwrap();
        }
        let seen =
            [Kind::Service, Kind::EndpointSlice].map(|kind| cluster.store.resource_version(kind));
        if self.has_proxy && seen != self.proxied {
            self.proxied = seen;
            cluster.sync_proxy().unwrap();
            if let Some(second) = &self.second {
                second.node.sync_proxy(cluster);
            }
        }
    }

    /// Names of the check's namespaces that exist.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let all = self.stage.cluster.store.list(Kind::Namespace).into_iter();
        let names = all.map(|namespace| namespace["metadata"]["name"].as_str().unwrap().to_owned());
        names
            .filter(|name| name.starts_with("epguard-check-"))
            .collect()
    }

    /// A pod of the check whose name begins so, if it exists.
    pub(crate) fn pod(&self, prefix: &str) -> Option<Value> {
        let mut pods = self.stage.cluster.store.list(Kind::Pod).into_iter();
        pods.find(|pod| {
            pod["metadata"]["name"]
                .as_str()
                .unwrap()
                .starts_with(prefix)
        })
    }

    /// Waits until nothing of a check is left: no object, and no process.
    #[track_caller]
    pub(crate) fn is_clean(&mut self) {
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            self.step();
            let kinds = [
                Kind::Pod,
                Kind::Job,
                Kind::Service,
                Kind::EndpointSlice,
                Kind::NetworkPolicy,
            ];
            let mut left: Vec<String> = self.namespaces();
            for kind in kinds {
                for object in self.stage.cluster.store.list(kind) {
                    let id = ObjectRef::of(&object).unwrap();
                    if id.namespace.starts_with("epguard-check-") {
                        left.push(format!("{}/{id}", id.namespace));
                    }
                }
            }
            left.extend(self.kubelets.running().into_iter().map(str::to_owned));
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left: {left:?}");
            sleep(Duration::from_millis(5));
        }
    }
}

fn story(agent: &str) -> String {
    format!("agent: {agent}\nsteps:\n  - proxy: sync\n")
}

fn agent_pod(name: &str, node: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "epguard", "labels": {"app.kubernetes.io/name": "epguard"}},
        "spec": {"nodeName": node, "hostNetwork": true, "containers": [{"name": "agent", "image": IMAGE, "args": ["agent"]}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "agent", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}}}]}})
}
