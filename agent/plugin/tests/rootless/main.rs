//! The plugin's program without a cluster.
#![allow(clippy::unwrap_used, reason = "a test panics")]

use std::process::Command;

/// What it prints, and its exit code.
fn run(words: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-epguard"))
        .args(words)
        .env("KUBECONFIG", "/nowhere/config")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

/// The candidates for the last of these words, as kubectl reads them.
fn candidates(words: &[&str]) -> Vec<String> {
    let (text, code) = run(&[&["__complete", "--"], words].concat());
    assert_eq!(code, Some(0), "{text}");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.pop().as_deref(), Some(":4"), "{text}");
    let values = lines.iter().map(|line| line.split('\t').next().unwrap());
    values.map(str::to_owned).collect()
}

#[test]
fn its_own_version_needs_no_cluster() {
    let version = env!("CARGO_PKG_VERSION");
    let plain = (format!("plugin {version}\n"), Some(0));
    assert_eq!(run(&["version", "--client"]), plain);
    let (json, code) = run(&["version", "--client", "-o", "json"]);
    assert!(
        json.contains(&format!("\"plugin\": \"{version}\"")),
        "{json}"
    );
    assert_eq!(code, Some(0));
}

#[test]
fn a_kubeconfig_that_is_missing_ends_each_verb_with_its_name() {
    for verb in [&["status"][..], &["lint"], &["version"], &["drops"]] {
        let (text, code) = run(verb);
        let cause = "epguard: kubeconfig /nowhere/config: cannot be read: ";
        assert!(text.starts_with(cause), "{verb:?}: {text}");
        assert_eq!(code, Some(2), "{verb:?}");
    }
}

#[test]
fn lint_asks_no_agent_and_refuses_the_flags_that_choose_some() {
    for flag in [
        "--node=worker-1",
        "-lpool=edge",
        "--parallel=8",
        "--agents-namespace=epguard",
    ] {
        for words in [["lint", flag], [flag, "lint"]] {
            let (text, code) = run(&words);
            assert!(text.starts_with("error: unexpected argument"), "{text}");
            assert_eq!(code, Some(2), "{words:?}");
        }
    }
}

#[test]
fn kubectl_completes_verbs_flags_and_values() {
    let verbs = candidates(&[""]);
    for verb in [
        "status", "drops", "why", "audit", "mode", "sysdump", "lint", "version",
    ] {
        assert!(verbs.iter().any(|one| one == verb), "{verb}: {verbs:?}");
    }
    assert!(!verbs.iter().any(|one| one == "__complete"), "{verbs:?}");
    assert_eq!(candidates(&["dro"]), ["drops"]);
    assert_eq!(candidates(&["mode", "enf"]), ["enforce"]);
    assert_eq!(candidates(&["drops", "--foll"]), ["--follow"]);
    assert_eq!(
        candidates(&["status", "--context", "a", "-o", "js"]),
        ["json"]
    );
}

#[test]
fn the_script_of_the_completion_is_the_one_that_is_shipped() {
    let (script, code) = run(&["completion"]);
    assert_eq!(script, include_str!("../../kubectl_complete-epguard"));
    assert_eq!(code, Some(0));
}

#[cfg(unix)]
#[test]
fn the_script_runs_the_plugin_with_the_words_as_they_are() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let kubectl = folder.path().join("kubectl");
    std::fs::write(&kubectl, "#!/bin/sh\nprintf '[%s]' \"$@\"\n").unwrap();
    std::fs::set_permissions(&kubectl, PermissionsExt::from_mode(0o755)).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/kubectl_complete-epguard");
    let output = Command::new(script)
        .args(["drops", "--node", "a b", ""])
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "[epguard][__complete][--][drops][--node][a b][]");
}
