//! Bad flags, files and surroundings: one line that names the thing, the cause and the remedy, and
//! a non-zero exit.

use crate::UNREACHABLE;
use crate::launcher::{AgentProcess, AgentSetup};
use nix::sched::{CloneFlags, unshare};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::{TempDir, tempdir};

/// A directory of one test's own.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Mounts a bpffs on it, for agents that start so far.
    fn with_bpffs(self) -> Self {
        let mounted = Command::new("mount")
            .args(["-t", "bpf", "bpf"])
            .arg(self.bpffs())
            .status()
            .unwrap();
        assert!(mounted.success(), "mounting a bpffs needs root");
        self
    }

    fn bpffs(&self) -> PathBuf {
        let path = self.path().join("bpf");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// `epguard agent` in a network namespace of its own if `alone`, with the address of an API
    /// server that does not run.
    fn agent(&self, more: &[&str], alone: bool) -> Command {
        let setup = AgentSetup {
            node: "n",
            kubeconfig: UNREACHABLE,
            run_dir: self.path(),
            pin_dir: &self.bpffs().join("epguard"),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_epguard"));
        command
            .args(setup.arguments().unwrap())
            .args(["--metrics-listen", "0.0.0.0:0"])
            .args(more);
        if alone {
            isolate(&mut command);
        }
        command
    }
}

fn isolate(command: &mut Command) {
    // SAFETY: unshare is async-signal-safe and touches only the child.
    unsafe { command.pre_exec(|| Ok(unshare(CloneFlags::CLONE_NEWNET)?)) };
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-lq")
            .arg(self.path().join("bpf"))
            .status();
    }
}

/// The one line that a failing command says.
fn complaint(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .env_remove("NODE_NAME")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("epguard: "))
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
    lines[0].to_owned()
}

#[track_caller]
fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "expected {part:?} in: {said}");
    }
}

fn epguard(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_epguard"));
    command.args(arguments);
    command
}

#[test]
fn an_address_for_metrics_that_is_taken_is_named_before_anything_is_attached() {
    let scratch = Scratch::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = scratch.file("kubeconfig", UNREACHABLE);
    let mut command = epguard(&[
        "agent",
        "--node-name",
        "n",
        "--metrics-listen",
        &address,
        "--run-dir",
    ]);
    command
        .arg(scratch.path())
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let parts = [&*address, "in use", "choose another --metrics-listen"];
    assert_says(&complaint(&mut command), &parts);
}

#[test]
fn a_second_agent_on_the_same_run_directory_is_refused() {
    let scratch = Scratch::new();
    let held = std::fs::File::create(scratch.path().join("lock")).unwrap();
    held.lock().unwrap();
    assert_says(
        &complaint(&mut scratch.agent(&[], false)),
        &["another epguard agent", "lock", "--run-dir"],
    );
}

#[test]
fn without_an_agent_a_command_names_the_missing_part() {
    let scratch = Scratch::new();
    let place = scratch.path().display().to_string();
    for (verb, flag, part) in [
        (&["mode", "enforce"][..], "--pin-dir", "epguard agent"),
        (&["dump"], "--pin-dir", "epguard agent"),
        (&["status"], "--run-dir", "no agent answers at"),
        (&["drops"], "--run-dir", "no agent answers at"),
        (&["audit"], "--run-dir", "no agent answers at"),
        (&["why", "10.244.1.10"], "--run-dir", "no agent answers at"),
    ] {
        let said = complaint(epguard(verb).args([flag, &place]));
        assert_says(&said, &[&place, part, flag]);
    }
}

#[test]
#[ignore = "needs root: gives it up"]
fn without_privileges_the_remedy_is_named() {
    let scratch = Scratch::new();
    let mut command = scratch.agent(&[], false);
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), everybody).unwrap();
    assert_says(
        &complaint(command.uid(65534).gid(65534)),
        &["privileges", "root", "CAP_BPF"],
    );
}

#[test]
#[ignore = "needs root: gets as far as the kernel"]
fn a_pin_directory_that_is_no_bpffs_is_refused() {
    let scratch = Scratch::new();
    assert_says(
        &complaint(&mut scratch.agent(&[], true)),
        &["bpf file system", "mount -t bpf", "--pin-dir"],
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_selection_without_an_interface_and_a_directory_of_cgroups_that_is_not_there_are_refused() {
    for (more, parts) in [
        (
            ["--pod-interfaces", "nope*"],
            ["no interface matches", "--pod-interfaces"],
        ),
        (
            ["--cgroup", "/no/such/cgroup"],
            ["--cgroup /no/such/cgroup", "no such directory"],
        ),
    ] {
        let scratch = Scratch::new().with_bpffs();
        assert_says(&complaint(&mut scratch.agent(&more, true)), &parts);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_unreachable_api_is_reported_in_one_line_and_tried_again() {
    let scratch = Scratch::new().with_bpffs();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ip link set lo up && ip link add va type veth peer name vb && exec \"$@\"",
        "sh",
    ]);
    let agent = scratch.agent(&[], false);
    command.arg(agent.get_program()).args(agent.get_args());
    isolate(&mut command);
    let mut agent = AgentProcess::start(command, scratch.path()).unwrap();
    let log = || std::fs::read_to_string(scratch.path().join("agent.log")).unwrap();
    let lost = || -> Vec<String> {
        log()
            .lines()
            .filter(|line| line.contains("watch lost"))
            .map(str::to_owned)
            .collect()
    };
    agent
        .until("does not go on trying", |_| (lost().len() < 5).then(log))
        .unwrap();
    let lost = lost();
    assert!(
        lost.iter()
            .all(|line| line.contains("cannot watch") && line.contains("retrying")),
        "{lost:?}"
    );
    assert!(agent.ended().unwrap().is_none(), "it has ended: {}", log());
}
