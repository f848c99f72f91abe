//! A cluster of agents whose answers a test writes, and `kubectl epguard` beside it.

use super::denials::usual;
use epguard::shared::status::{
    ActionInForce, ActionSource, Attachment, ModeSource, Status, Translators, Watch,
};
use epguard_client::answers::status::{Condition, problems};
use epguard_common::{Action, Mode, Reason};
use epguard_core::facts::Watched;
use epguard_core::state::IpState;
use epguard_lab::api::{ApiError, ApiServer, Exec, Run, Store};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempPath};

/// A server with agents. Its kubeconfig goes with it.
pub struct World {
    pub store: Store,
    pub server: ApiServer,
    pub kubeconfig: TempPath,
}

impl World {
    /// Nodes `worker-1` to `worker-3`, each with an agent's pod.
    pub fn new() -> Self {
        let world = Self::empty();
        for number in 1..=3 {
            world.node(&format!("worker-{number}"));
            world.agent(&format!("worker-{number}"));
        }
        world
    }

    pub fn empty() -> Self {
        let store = Store::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = ApiServer::start(listener, store.clone()).unwrap();
        let mut kubeconfig = NamedTempFile::new().unwrap();
        kubeconfig
            .write_all(server.kubeconfig().as_bytes())
            .unwrap();
        let kubeconfig = kubeconfig.into_temp_path();
        store.ensure_namespace("epguard").unwrap();
        let world = Self {
            store,
            server,
            kubeconfig,
        };
        world.answers(usual);
        world
    }

    /// Answers every command in an agent's pod from now on, in place of [`usual`].
    pub fn answers(&self, answer: impl Fn(&Exec) -> Run + Send + Sync + 'static) {
        self.server.api.execs.answer(answer);
    }

    /// Lets the user of the kubeconfig do this in the agents' namespace.
    pub fn allow(&self, rules: &Value) {
        let role = json!({"kind": "Role", "metadata": {"name": "operator", "namespace": "epguard"}, "rules": rules});
        self.server.api.access.bind(&role).unwrap();
    }

    pub fn node(&self, name: &str) {
        let node = json!({"kind": "Node", "apiVersion": "v1", "spec": {},
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", "name": name}}});
        self.store.apply(node).unwrap();
    }

    pub fn agent(&self, node: &str) {
        self.store.apply(pod(node)).unwrap();
    }

    /// Runs the plugin with these words, and returns its exit code, standard output and standard
    /// error as one text.
    pub async fn run(&self, arguments: &str) -> String {
        let mut command = self.command(arguments);
        let done = tokio::task::spawn_blocking(move || command.output());
        let done = done.await.unwrap().unwrap();
        let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
        let text = format!("exit code {}\n{out}{err}", done.status.code().unwrap());
        self.with_fixed_names(&text)
    }

    /// Runs the plugin with these words and `-o json`, and returns its exit code, the one document of
    /// its standard output, and its standard error.
    pub async fn document(&self, arguments: &str) -> (Option<i32>, Value, String) {
        let mut command = self.command(&format!("{arguments} -o json"));
        let done = tokio::task::spawn_blocking(move || command.output());
        let done = done.await.unwrap().unwrap();
        let beside = String::from_utf8(done.stderr).unwrap();
        let document = serde_json::from_slice(&done.stdout);
        let document = document.unwrap_or_else(|error| panic!("{arguments}: {error}: {beside}"));
        (done.status.code(), document, beside)
    }

    /// The text with one name for the server and one for the kubeconfig, whose own are drawn.
    fn with_fixed_names(&self, text: &str) -> String {
        text.replace(&self.server.address.to_string(), "127.0.0.1:6443")
            .replace(&self.kubeconfig.display().to_string(), "~/.kube/config")
    }

    /// Runs the plugin with each of these words, and compares the outputs with a file of
    /// `expected`.
    pub async fn expect_each(&self, name: &str, all: &[&str]) -> Vec<String> {
        let mut outputs = Vec::new();
        for arguments in all {
            outputs.push(format!("{arguments}: {}", self.run(arguments).await));
        }
        expect(name, &outputs.join("\n"));
        outputs
    }

    /// Runs the plugin with these words for a reader that leaves at once. Kills it after 20 s.
    pub async fn leave(&self, arguments: &str) -> Output {
        let mut command = self.command(arguments);
        let left = tokio::task::spawn_blocking(move || {
            let mut child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            drop(child.stdout.take());
            let until = Instant::now() + Duration::from_secs(20);
            while child.try_wait().unwrap().is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            child.wait_with_output().unwrap()
        });
        left.await.unwrap()
    }

    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(epguard_lab::process::plugin().unwrap());
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .args(arguments.split(' '))
            .stdin(Stdio::null());
        command
    }
}

/// An agent's pod, as the `DaemonSet` makes it.
pub fn pod(node: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": format!("epguard-{node}"), "namespace": "epguard", "labels": {"app.kubernetes.io/name": "epguard"}},
        "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "epguard:0.1.0",
            "args": ["agent", "--node-name=$(NODE_NAME)", "--mode=$(MODE)", "--mode-policy=epguard/epguard"],
            "env": [{"name": "MODE", "value": "observe"}]}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "agent", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}}}]}})
}

/// The node of the pod that a command runs in.
pub fn node_of(exec: &Exec) -> &str {
    exec.pod.strip_prefix("epguard-").unwrap()
}

/// A command that prints a document.
pub fn prints(document: &impl Serialize, code: i32) -> Run {
    says(serde_json::to_vec(document).unwrap(), "", code)
}

/// A command with these outputs.
pub fn says(stdout: impl AsRef<[u8]>, stderr: &str, code: i32) -> Run {
    Run::Prints {
        stdout: stdout.as_ref().to_owned(),
        stderr: stderr.to_owned(),
        code,
    }
}

/// What an API server answers if it does not reach the node.
pub fn gone() -> Run {
    let message = "error dialing backend: dial tcp 10.0.0.3:10250: connect: no route to host";
    Run::Fails(ApiError::new(500, "InternalError", message))
}

/// The first node answers, the second hangs, the third is gone.
pub fn one_hangs_one_is_gone(exec: &Exec, answer: impl FnOnce(&Exec) -> Run) -> Run {
    match node_of(exec) {
        "worker-2" => Run::Hangs,
        "worker-3" => gone(),
        _ => answer(exec),
    }
}

/// What `epguard status -o json` prints, with its exit code.
pub fn condition(status: Status) -> Run {
    let problems = problems(&status);
    let code = i32::from(!problems.is_empty());
    prints(&Condition { problems, status }, code)
}

/// By the agents' flags.
const DROP: ActionInForce = ActionInForce {
    action: Action::Drop,
    source: ActionSource::Flags,
};

/// A healthy agent.
pub fn status(node: &str) -> Status {
    let watch = Watch {
        up: true,
        age_ms: Some(3100),
        ..Watch::default()
    };
    let mut status = Status {
        version: "0.1.0".into(),
        node: node.into(),
        kernel: "6.12.0".into(),
        synced: true,
        mode: Some(Mode::Observe),
        mode_source: ModeSource::ModePolicy,
        reasons: [
            (Reason::DeadBackend, Mode::Observe),
            (Reason::Reused, Mode::Observe),
        ]
        .into(),
        actions: Reason::TO_DENY.map(|reason| (reason, DROP)).into(),
        watches: [(Watched::Pods, watch)].into(),
        // It follows each change at once.
        applied: [(Watched::ModePolicy, 1 << 40)].into(),
        lease_ms: 12_000,
        view_age_ms: Some(3100),
        translators: Translators {
            conntrack: true,
            ..Translators::default()
        },
        interfaces: vec![Attachment {
            ifindex: 2,
            name: "eth0".into(),
            role: "uplink".into(),
            attached: true,
            kernel_path: "tcx".into(),
            position: 1,
            ..Attachment::default()
        }],
        ..Status::default()
    };
    status.figures.ips.insert(IpState::Denied, 2);
    status
}

/// Compares an output with a file of `expected`.
pub fn expect(name: &str, output: &str) {
    let file = beside(&format!("fleet/expected/{name}"));
    compare(&file, &timeless(output));
}

/// The output without how long the nodes took to follow.
fn timeless(output: &str) -> String {
    let mut text = String::new();
    for line in output.split_inclusive('\n') {
        match line.split_once(" follow (") {
            Some((nodes, _)) => {
                text.push_str(nodes);
                text.push_str(" follow (0.0 s)\n");
            }
            None => text.push_str(line),
        }
    }
    text
}

/// A file beside the tests.
pub fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/rootless")
        .join(name)
}

/// Compares an output with a file; `EPGUARD_WRITE_GOLDEN=1` writes it anew.
pub fn compare(file: &Path, output: &str) {
    if std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some() {
        std::fs::write(file, output).unwrap();
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        expected == output,
        "{} is\n{expected}\nand now\n{output}",
        file.display()
    );
}

/// Compares a file whose sections begin with `== RECORDING at WHAT` with the `text` of each. Every
/// recording must have one.
pub fn golden(file: &str, mut text: impl FnMut(&str, &str) -> String) {
    let file = beside(file);
    let sections = std::fs::read_to_string(&file).unwrap();
    let headers = sections.lines().filter_map(|line| line.strip_prefix("== "));
    let found = headers.map(|header| {
        let (name, what) = header.split_once(" at ").unwrap();
        format!("== {header}\n{}\n\n", text(name, what))
    });
    compare(&file, &found.collect::<String>());
    for name in recordings() {
        assert!(sections.contains(&format!("== {name} at ")), "{name}");
    }
}

/// The names of all recordings.
pub fn recordings() -> Vec<String> {
    let entries = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("traces")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "README.md").collect()
}
