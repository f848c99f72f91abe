//! What the operator switches while the datapath runs.

use super::*;
use epguard::kernel::maps::{self, Writer};
use std::fs::File;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const LIMITS: AnswerLimits = AnswerLimits {
    per_suspect: 7,
    per_node: 70,
};

fn config(node: &Node) -> Config {
    maps::configuration(&node.pins()).unwrap()
}

fn epguard(node: &Node, args: &[&str]) -> String {
    let pins = node.pins();
    let pins = ["--pin-dir", pins.to_str().unwrap()];
    run(env!("CARGO_BIN_EXE_epguard"), &[args, &pins].concat())
}

#[test]
#[ignore = "needs root: BPF"]
fn action_and_mode_are_switched_independently_and_at_once() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Auto);
    let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
    let actions = ReasonActions::default();
    writer
        .config
        .change(|config| Config {
            actions,
            limits: LIMITS,
            ..config
        })
        .unwrap();
    writer
        .config
        .configure(Mode::Observe, maps::default_modes(), false)
        .unwrap();
    epguard(&node, &["action", "reject"]);
    epguard(&node, &["action", "drop", "--reason", "terminated"]);
    let switched = epguard(&node, &["mode", "enforce"]);
    let expected = ReasonActions {
        terminated: Action::Drop,
        ..ReasonActions::of_each(|_| Action::Reject)
    };
    let config = config(&node);
    assert_eq!(
        (config.mode, config.actions, config.limits),
        (Mode::Enforce, expected, LIMITS)
    );
    assert_eq!(config.reasons.retired_backend, Mode::Observe);
    let shown = epguard(&node, &["mode"]);
    assert_eq!(switched, shown, "the modes after the switch");
    assert!(
        shown.starts_with("enforce\n  dead-backend enforce\n"),
        "{shown}"
    );
}

#[test]
#[ignore = "needs root: BPF"]
fn a_command_waits_while_another_process_changes_config() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Auto);
    let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
    writer.config.lock_in(&node.pins());
    writer
        .config
        .configure(Mode::Observe, maps::default_modes(), false)
        .unwrap();
    let directory = File::open(maps::directory(&node.pins())).unwrap();
    directory.lock().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_epguard"));
    command
        .args(["mode", "enforce", "--pin-dir"])
        .arg(node.pins());
    let mut command = command.spawn().unwrap();
    sleep(Duration::from_millis(300));
    assert!(command.try_wait().unwrap().is_none(), "it waits");
    assert_eq!(config(&node).mode, Mode::Observe);
    directory.unlock().unwrap();
    assert!(command.wait().unwrap().success());
    assert_eq!(config(&node).mode, Mode::Enforce);
    writer.config.demote(Reason::Reused).unwrap();
    assert_eq!(
        config(&node).mode,
        Mode::Enforce,
        "the agent keeps what it did not change"
    );
}
