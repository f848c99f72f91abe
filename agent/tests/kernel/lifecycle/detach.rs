//! `epguard detach`: ours and nothing else.

use super::agent::Agent;
use super::*;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const EPGUARD: &str = env!("CARGO_BIN_EXE_epguard");

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn detach_removes_links_maps_and_directories_and_reports_it_once() {
    let node = Node::new();
    node.hooked(Hooks::Tcx);
    let pin = node.pin(Hook::Ingress);
    let (id, _) = link(&pin);
    let said = detach(&node);
    assert!(
        said.contains(&format!("removed link {}\n", pin.display())),
        "{said}"
    );
    assert!(said.contains("v3/OWNERS\n"), "{said}");
    assert!(!node.pins().exists());
    assert_eq!(programs(), [[0; 0]; 2]);
    assert!(
        !output("bpftool", &["link", "show", "id", &id.to_string()])
            .status
            .success()
    );
    assert_eq!(detach(&node), "nothing to remove\n");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn detach_leaves_programs_filters_and_qdiscs_of_others_as_they_are() {
    let node = Node::new();
    tc("qdisc add dev pod clsact");
    tc("qdisc add dev pod root pfifo limit 77");
    let mut other = node.load(Hooks::Tcx);
    let program = foreign(&mut other);
    for side in [TcAttachType::Ingress, TcAttachType::Egress] {
        let order = TcAttachOptions::TcxOrder(LinkOrder::first());
        program.attach_with_options("pod", side, order).unwrap();
        program.attach_with_options("pod", side, filter(7)).unwrap();
    }
    let before = everything();
    for hooks in [Hooks::Tcx, Hooks::Clsact] {
        node.hooked(hooks);
        assert_ne!(everything(), before);
        detach(&node);
        assert_eq!(everything(), before, "{hooks:?}");
        assert_eq!(programs().map(|side| side.len()), [1, 1], "{hooks:?}");
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_qdisc_goes_only_if_we_made_it_and_no_others_have_put_filters_on_it() {
    let node = Node::new();
    node.hooked(Hooks::Clsact);
    assert!(tc("qdisc show dev pod").contains("clsact"));
    let said = detach(&node);
    assert!(said.contains("clsact"), "{said}");
    assert!(!tc("qdisc show dev pod").contains("clsact"));

    node.hooked(Hooks::Clsact);
    let mut other = node.load(Hooks::Clsact);
    foreign(&mut other)
        .attach_with_options("pod", TcAttachType::Egress, filter(7))
        .unwrap();
    detach(&node);
    assert!(tc("qdisc show dev pod").contains("clsact"));
    assert!(tc("filter show dev pod egress").contains("epguard_selftest"));
    assert!(!tc("filter show dev pod ingress").contains("epguard"));

    tc("filter del dev pod egress");
    node.hooked(Hooks::Clsact);
    detach(&node);
    assert!(
        tc("qdisc show dev pod").contains("clsact"),
        "it was there, though empty"
    );
    assert_eq!(tc("filter show dev pod egress"), "");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn filters_are_found_without_the_pin_directory() {
    let node = Node::new();
    node.hooked(Hooks::Clsact);
    run("umount", &["-l", node.dir.to_str().unwrap()]);
    run("mount", &["-t", "bpf", "bpf", node.dir.to_str().unwrap()]);
    assert!(tc("filter show dev pod egress").contains("epguard_to"));
    detach(&node);
    assert_eq!(tc("filter show dev pod egress"), "");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn detach_refuses_while_an_agent_runs_and_force_removes_everything_all_the_same() {
    let node = Node::new();
    let mut agent = Agent::start(&node, &[]);
    agent.wait_for("pod", |at| at.attached);
    let before = everything();
    let refused = output(
        EPGUARD,
        &["detach", "--pin-dir", node.pins().to_str().unwrap()],
    );
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && said.contains("stop it first"),
        "{said}"
    );
    assert_eq!(everything(), before);
    run(
        EPGUARD,
        &[
            "detach",
            "--force",
            "--pin-dir",
            node.pins().to_str().unwrap(),
        ],
    );
    assert_eq!(programs(), [[0; 0]; 2]);
}

#[test]
#[ignore = "needs root: another user's rights, and a pin directory that is none"]
fn detach_without_privileges_or_bpffs_names_the_remedy() {
    let complaint = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // Another user may not reach the folder of the build.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("epguard");
    // By another process: a file that this one has open for writing while a test forks cannot be
    // run.
    run("cp", &[EPGUARD, copy.to_str().unwrap()]);
    let said = complaint(Command::new(&copy).arg("detach").uid(65534));
    assert!(
        said.contains("not enough privileges: run as root"),
        "{said}"
    );
    let said = complaint(Command::new(EPGUARD).args([
        "detach",
        "--pin-dir",
        folder.path().to_str().unwrap(),
    ]));
    assert!(said.contains("not on a bpf file system"), "{said}");
}

pub fn detach(node: &Node) -> String {
    run(
        EPGUARD,
        &["detach", "--pin-dir", node.pins().to_str().unwrap()],
    )
}

/// Ids of the TCX programs at ingress and egress.
fn programs() -> [Vec<u32>; 2] {
    [TcAttachType::Ingress, TcAttachType::Egress].map(|side| {
        let (_, programs) = SchedClassifier::query_tcx("pod", side).unwrap();
        programs
            .iter()
            .map(aya::programs::ProgramInfo::id)
            .collect()
    })
}

/// Ids of the TCX programs, qdiscs and filters of the interface.
fn everything() -> String {
    let shown = [
        "qdisc show dev pod",
        "filter show dev pod ingress",
        "filter show dev pod egress",
    ];
    format!("{:?}\n{}", programs(), shown.map(tc).concat())
}
