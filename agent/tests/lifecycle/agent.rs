//! The whole process: how it ends, and what the next one finds.

use crate::cgroup::Root;
use crate::node::{Node, ifindex, link, run};
use aya::programs::{SchedClassifier, TcAttachType};
use epguard::kernel::datapath::Hook;
use epguard::shared::status::{self, Attachment};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_agent_that_is_killed_or_stopped_leaves_its_hooks_to_the_next_one() {
    let node = Node::new();
    let mut ids = Vec::new();
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGTERM] {
        let agent = Agent::start(&node, &[]);
        let attached = agent.attached();
        assert_eq!((attached.kernel_path.as_str(), attached.position), ("tcx", 1));
        agent.end(signal);
        ids.push(Hook::ALL.map(|hook| link(&node.pin(hook)).0));
    }
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_agent_that_is_told_to_detach_on_exit_leaves_nothing() {
    let node = Node::new();
    for hooks in ["tcx", "clsact"] {
        let agent = Agent::start(&node, &["--detach-on-exit", "--hooks", hooks]);
        assert_eq!(agent.attached().kernel_path, hooks);
        agent.end(libc::SIGTERM);
        assert!(!node.pins().exists());
        assert!(!run("tc", &["qdisc", "show", "dev", "pod"]).contains("clsact"));
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_running_agent_hooks_what_is_renamed_or_made_again_and_lets_go_of_what_is_gone() {
    let node = Node::new();
    let agent = Agent::start(&node, &[]);
    agent.attached();
    let (old, before) = (ifindex("pod"), link(&node.pin(Hook::To)));
    run("ip", &["link", "set", "pod", "down"]);
    run("ip", &["link", "set", "pod", "name", "pod7"]);
    let attached = agent.wait("pod7");
    let pin = node.pins().join(format!("v2/links/{old}-to"));
    assert_eq!((attached.ifindex, link(&pin)), (old, before));
    run("ip", &["link", "del", "pod7"]);
    run(
        "ip",
        &["link", "add", "pod7", "type", "veth", "peer", "name", "x"],
    );
    let made = Instant::now();
    while !agent.is_attached("pod7", ifindex("pod7")) {
        assert!(made.elapsed() < Duration::from_mins(1), "not hooked again");
    }
    println!("hooked {:?} after `ip link add` ended", made.elapsed());
    let gone = Instant::now() + Duration::from_mins(1);
    while pin.exists() {
        assert!(
            Instant::now() < gone,
            "the pin of an interface that is gone stays"
        );
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_running_agent_attaches_again_what_somebody_detached() {
    let node = Node::new();
    let agent = Agent::start(&node, &[]);
    agent.attached();
    let (severed, _) = link(&node.pin(Hook::From));
    run("bpftool", &["link", "detach", "id", &severed.to_string()]);
    let programs = || {
        let listed = SchedClassifier::query_tcx("pod", TcAttachType::Ingress);
        listed.unwrap().1.len()
    };
    assert_eq!(programs(), 0);
    let deadline = Instant::now() + Duration::from_mins(1);
    while programs() == 0 {
        assert!(Instant::now() < deadline, "not attached again");
        std::thread::yield_now();
    }
}

/// An agent that no API server talks to: hooks come without one.
pub struct Agent {
    child: Child,
    run_dir: PathBuf,
    /// Removed with it.
    cgroups: Option<Root>,
}

impl Agent {
    /// With a cgroup to hook.
    pub fn start(node: &Node, more: &[&str]) -> Self {
        let root = Root::new();
        root.child("kubepods.slice");
        let cgroups = ["--cgroup-root", root.path.to_str().unwrap()];
        let mut agent = Self::start_as(node, &[&cgroups, more].concat());
        agent.cgroups = Some(root);
        agent
    }

    /// With these options.
    pub fn start_as(node: &Node, more: &[&str]) -> Self {
        let run_dir = std::env::temp_dir().join(format!("{}-run", node.dir.file_name().unwrap().display()));
        std::fs::create_dir_all(&run_dir).unwrap();
        let kubeconfig = run_dir.join("kubeconfig");
        std::fs::write(&kubeconfig, NOBODY).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_epguard"));
        command.args(["agent", "--node-name", "n", "--pod-interfaces", "pod*"]);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.arg("--run-dir").arg(&run_dir);
        command.arg("--pin-dir").arg(node.pins()).args(more);
        let stderr = std::fs::File::create(run_dir.join("stderr")).unwrap();
        command.stdout(Stdio::null()).stderr(stderr);
        // SAFETY: prctl is async-signal-safe; the agent goes with a test that fails.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Self {
            child,
            run_dir,
            cgroups: None,
        }
    }

    fn attached(&self) -> Attachment {
        self.wait("pod")
    }

    fn wait(&self, name: &str) -> Attachment {
        self.wait_for(name, |at| at.attached)
    }

    /// Waits until the status shows the interface so.
    pub fn wait_for(&self, name: &str, so: impl Fn(&Attachment) -> bool) -> Attachment {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let status = status::read(&self.run_dir).unwrap_or_default();
            let found = status.interfaces.into_iter().find(|at| at.name == name && so(at));
            if let Some(found) = found {
                return found;
            }
            assert!(Instant::now() < deadline, "{name} is not hooked so");
        }
    }

    fn is_attached(&self, name: &str, ifindex: u32) -> bool {
        let status = status::read(&self.run_dir).unwrap_or_default();
        let wanted = |at: &Attachment| at.name == name && at.ifindex == ifindex && at.attached;
        status.interfaces.iter().any(wanted)
    }

    pub fn end(mut self, signal: i32) {
        let pid = i32::try_from(self.child.id()).unwrap();
        // SAFETY: our own child, not waited for yet.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        self.child.wait().unwrap();
    }
}

impl Agent {
    /// What it says at its end, which comes by itself and is no success.
    pub fn complaint(mut self) -> String {
        assert!(!self.child.wait().unwrap().success());
        std::fs::read_to_string(self.run_dir.join("stderr")).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.run_dir);
        drop(self.cgroups.take());
    }
}

/// A cluster at a port of loopback where nobody listens.
const NOBODY: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
  "users": [{"name": "c", "user": {}}],
  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}"#;
