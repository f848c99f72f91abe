//! `e2e/run` from its first step to its last, with kubectl and Helm themselves, against the lab's
//! API server and two nodes with real agents.
//!
//! What a real cluster has and the lab lacks: an image and a container runtime, access rules of
//! service accounts, admission, and owners of fields that are applied.

mod rig;

use rig::Rig;

/// AWS packs the programs for `x86_64` alone.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "needs root: network namespaces and eBPF; needs kubectl and Helm: cargo xtask setup installs them"]
fn kubectl_and_helm_install_check_enforce_and_uninstall_and_nothing_is_left() {
    let mut rig = Rig::new();
    let output = rig.run();
    assert!(output.ends_with("\n9 of 9 steps passed\n"), "{output}");
    assert_eq!(rig.left(), [""; 0]);
}
