//! The demo as a program: its output without a terminal, and its failure with an epguard that does
//! nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use epguard_lab::process::epguard;

fn demo(epguard: &Path) -> Output {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_epguard-lab"));
    demo.arg("demo").env("EPGUARD", epguard);
    demo.output().expect("cargo has built it")
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn every_claim_holds_and_the_output_is_plain_text() {
    let output = demo(&epguard().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!text.contains('\x1b'), "{text}");
    assert!(!text.contains("epguard-x7k2p"), "{text}");
    for map in ["OWNERS", "SUSPECTS", "SERVICES", "DENIED"] {
        assert!(text.contains(&format!("/v3/{map}\n")), "{text}");
    }
    for outcome in ["timed out", "refused", "by A"] {
        let shown = text.matches(&format!("12 {outcome}, median ")).count();
        assert!(shown >= 3, "not for all of A's clients: {outcome}: {text}");
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn an_epguard_that_enforces_nothing_fails_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    let lazy = folder.path().join("epguard");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = mode ] || exec {} \"$@\"\n",
        epguard().unwrap().display()
    );
    fs::write(&lazy, script).unwrap();
    fs::set_permissions(&lazy, fs::Permissions::from_mode(0o755)).unwrap();
    let output = demo(&lazy);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for (calls, broken) in [
        (36, "reached nobody"),
        (36, "were refused"),
        (24, "were answered by A"),
    ] {
        assert!(
            error.contains(&format!("all {calls} calls to A {broken}")),
            "{error}"
        );
    }
}
