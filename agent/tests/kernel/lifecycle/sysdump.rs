//! `epguard sysdump` with the rights that the agent's pod has.

use super::*;
use crate::launcher::{CAPABILITIES, confine};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn the_agents_rights_are_enough_for_epguards_own_programs_and_maps_and_the_rest_is_named() {
    let node = Node::new();
    node.hooked(Hooks::Tcx);
    let (_, program) = link(&node.pin(Hook::Egress));
    let mut command = Command::new(env!("CARGO_BIN_EXE_epguard"));
    command
        .args(["sysdump", "-f", "/dev/stdout", "--pin-dir"])
        .arg(node.pins());
    command.arg("--run-dir").arg(node.run_dir());
    // SAFETY: `confine` is made for it.
    unsafe { command.pre_exec(|| confine(&CAPABILITIES)) };
    let archive = command.output().unwrap().stdout;
    let part = |name: &str| {
        let mut tar = tar::Archive::new(&archive[..]);
        let mut entries = tar.entries().unwrap().map(Result::unwrap);
        let mut entry = entries
            .find(|entry| entry.path().unwrap().ends_with(name))
            .expect(name);
        std::io::read_to_string(&mut entry).unwrap()
    };
    let own = format!(
        "{program} at the link {}\n",
        node.pin(Hook::Egress).display()
    );
    for (name, parts) in [
        (
            "bpf-programs.txt",
            [
                &*own,
                "left out: other programs of the node: ",
                "as root on the node",
            ],
        ),
        (
            "bpf-maps.txt",
            [
                " name DENIED ",
                "left out: other maps of the node: ",
                "as root on the node",
            ],
        ),
    ] {
        let text = part(name);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let missing = part("missing.txt");
    assert!(!missing.contains("bpf-"), "{missing}");
}
