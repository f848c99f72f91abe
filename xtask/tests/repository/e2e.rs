//! `e2e/run`, with programs that stand for kubectl, Helm, jq and the plugin: what it refuses, what
//! it reports, and that it removes what it has made. `lab/tests/cluster/e2e` runs all steps with
//! kubectl and Helm themselves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Each program writes its command line into `log`. What kubectl answers is a cluster of two nodes.
const PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$(basename "$0") $*" >>"$here/log"
case "$(basename "$0") $*" in
"kubectl get namespace "*) [ -e "$here/namespace-there" ] ;;
"kubectl get nodes "*) echo node-a node-b ;;
"kubectl "*" get daemonset "*) echo ghcr.io/example/epguard:1 ;;
"kubectl "*" get pods --selector "*) [ ! -e "$here/agents-stay" ] || echo pod/epguard-abcde ;;
"sleep "*) ;;
"kubectl "*" logs left-"*) cat "$here/left" ;;
"kubectl get clusterroles,"*) cat "$here/api" ;;
"plugin check --all"*) [ ! -e "$here/check-fails" ] ;;
esac
"#;

/// A folder with the programs.
struct Rig(TempDir);

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for program in ["kubectl", "helm", "jq", "plugin", "sleep"] {
            let file = folder.path().join(program);
            fs::write(&file, PROGRAM).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        }
        let rig = Self(folder);
        rig.write("left", "nothing to remove\n");
        rig.write(
            "api",
            "namespace/epguard\nnamespace/epguard-e2e\nnamespace/default\n",
        );
        rig.write("kubeconfig", "");
        rig
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/run");
        let path = format!("{}:{}", self.0.path().display(), env!("PATH"));
        let mut run = Command::new(script);
        run.env("PATH", path).arg("--plugin").arg("plugin");
        run.arg("--kubeconfig").arg(self.file("kubeconfig"));
        run.args(arguments).output().unwrap()
    }

    /// The command lines that contain one of these texts, in their order.
    fn calls(&self, texts: &[&str]) -> Vec<String> {
        let log = fs::read_to_string(self.file("log")).unwrap_or_default();
        let calls = log
            .lines()
            .filter(|line| texts.iter().any(|text| line.contains(text)));
        calls.map(str::to_owned).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn namespaces_are_removed_even_if_agents_stay() {
    let rig = Rig::new();
    rig.write("agents-stay", "");
    let output = rig.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(rig.calls(&["delete namespace"]).len(), 1);
}

#[test]
fn a_check_that_fails_ends_the_run_and_everything_is_removed_unless_it_is_to_be_kept() {
    for (arguments, is_removed) in [(&[][..], true), (&["--keep"], false)] {
        let rig = Rig::new();
        rig.write("check-fails", "");
        let output = rig.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(rig.calls(&["mode enforce"]), [""; 0]);
        for removed in ["check --clean", "helm uninstall", "delete namespace"] {
            assert_eq!(
                rig.calls(&[removed]).len(),
                usize::from(is_removed),
                "{removed}"
            );
        }
    }
}

#[test]
fn what_is_left_on_a_node_or_in_the_api_is_named() {
    for (file, text, named) in [
        (
            "left",
            "removed map DENIED\n",
            "node-a: after the agents had detached, there was still: removed map DENIED",
        ),
        (
            "api",
            "clusterrole/epguard\nnamespace/epguard\n",
            "there is still: clusterrole/epguard\n",
        ),
        (
            "api",
            "namespace/epguard-check-abcde\n",
            "there is still: namespace/epguard-check-abcde\n",
        ),
    ] {
        let rig = Rig::new();
        rig.write(file, text);
        let output = rig.run(&[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
}

#[test]
fn a_cluster_that_has_epguard_and_wrong_arguments_are_refused_and_nothing_is_touched() {
    let rig = Rig::new();
    rig.write("namespace-there", "");
    let output = rig.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("there is a namespace epguard"),
        "{}",
        stderr(&output)
    );
    for (arguments, named) in [
        (&["--kubeconfig", "/nowhere"][..], "there is no such file"),
        (&["--timeout", "5m"], "--timeout 5m is no number of seconds"),
        (
            &["--plugin", "no-such-program"],
            "no-such-program is not on PATH",
        ),
        (&["--image"], "unknown argument --image"),
        (&["--chart"], "--chart needs a value"),
    ] {
        let output = rig.run(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
    assert_eq!(
        rig.calls(&["create", "delete", "install", "label", "plugin"]),
        [""; 0]
    );
}
