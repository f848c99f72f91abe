//! What the command line accepts.

use super::*;
use crate::kernel::datapath::{Hooks, Xdp};
use crate::shared::args::service;
use clap::FromArgMatches as _;
use epguard_common::{Mode, Reason};
use epguard_core::state::Ipam;
use glob::Pattern;
use std::path::PathBuf;
use std::time::Duration;

const PINS: &str = "/sys/fs/bpf/epguard";

/// Parses without the variable `NODE_NAME` of the tests' environment.
fn agent(args: &[&str]) -> Result<AgentArgs, String> {
    let args = ["epguard", "agent"].iter().chain(args);
    let cli = Cli::command().mut_subcommand("agent", |agent| {
        agent.mut_arg("node_name", |arg| arg.env(None))
    });
    let matches = cli.try_get_matches_from(args).map_err(|e| e.to_string())?;
    match Cli::from_arg_matches(&matches)
        .map_err(|e| e.to_string())?
        .command
    {
        Command::Agent(agent) => Ok(*agent),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_of_the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_defaults_only_observe() {
    let agent = agent(&["--node-name", "node-1.example"]).unwrap();
    assert_eq!(agent.node_name, "node-1.example");
    let retired = agent.reasons.modes().retired_backend;
    assert_eq!((agent.mode, retired), (Mode::Observe, Mode::Observe));
    assert_eq!(agent.ipam, Ipam::Auto);
    assert_eq!(agent.lease, Duration::from_secs(15));
    assert_eq!(agent.max_view_age, Duration::from_secs(30));
    assert_eq!(agent.pins.pin_dir, PathBuf::from(PINS));
    assert_eq!(agent.run.run_dir, PathBuf::from("/run/epguard"));
    assert!(agent.selection().pods.is_empty() && agent.selection().uplinks.is_empty());
}

#[test]
fn a_missing_empty_or_unsubstituted_node_name_is_refused_in_one_line_with_its_remedy() {
    for args in [
        &[][..],
        &["--node-name", ""],
        &["--node-name", "$(NODE_NAME)"],
    ] {
        let error = agent(args).unwrap_err();
        let line = error.lines().next().unwrap();
        assert!(line.contains("--node-name <NAME>"), "{error}");
        assert!(
            line.contains("set NODE_NAME from the pod's spec.nodeName"),
            "{error}"
        );
    }
}

#[test]
fn interfaces_may_be_given_with_commas_and_repeatedly() {
    let args = [
        "--pod-interfaces",
        "cali*,tap*",
        "--pod-interfaces=veth*",
        "--uplinks",
        "eth0",
        "eth1",
    ];
    let agent = agent(&[&["--node-name", "n"], &args[..]].concat()).unwrap();
    let fit = |patterns: &[Pattern], name| {
        let fitting = patterns.iter().filter(|pattern| pattern.matches(name));
        fitting.count()
    };
    let names = ["cali1", "tap", "veth12", "eth0", "eth1", "xveth1", "eth10"];
    assert_eq!(
        names.map(|name| fit(&agent.pod_interfaces, name)),
        [1, 1, 1, 0, 0, 0, 0]
    );
    assert_eq!(
        names.map(|name| fit(&agent.uplinks, name)),
        [0, 0, 0, 1, 1, 0, 0]
    );
}

#[test]
fn a_wrong_value_is_refused_in_one_line_with_the_right_form_or_beside_a_list_of_the_right_ones() {
    let range = &["--protect-cidr <CIDR>", "as in 10.244.0.0/16"][..];
    for (flag, value, parts) in [
        ("--mode", "deny", &["'deny'", "off, observe, enforce"][..]),
        ("--lease", "2", &["whole seconds from 3 to 300"]),
        ("--lease", "soon", &["whole seconds from 3 to 300"]),
        ("--hooks", "xdp", &["auto, tcx, clsact"]),
        ("--clsact-delay", "301", &["from 0 to 300"]),
        (
            "--uplinks",
            "eth[0-9",
            &["'eth[0-9'", "`[0-9]` or `[!0]`, as in cali*"],
        ),
        ("--pod-interfaces", r"cali\*", &["as in cali*"]),
        ("--pod-interfaces", "eth[^0]", &["`[!0]`, as in cali*"]),
        ("--pod-interfaces", "eth[[:digit:]]", &["as in cali*"]),
        ("--api-rate", "0", &["1..=1000"]),
        ("--api-rate", "1001", &["1..=1000"]),
        ("--api-rate", "fast", &["invalid digit"]),
        ("--api-burst", "0", &["1..=10000"]),
        ("--api-burst", "10001", &["1..=10000"]),
        ("--events", "some", &["none, breaker, all"]),
        ("--protect-cidr", "banana", range),
        ("--protect-cidr", "10.0.0.0", range),
        ("--protect-cidr", "10.0.0.0/33", range),
        ("--protect-cidr", "", range),
        ("--reason-mode", "terminated", &["as in terminated=observe"]),
        (
            "--reason-mode",
            "terminated=on",
            &["off, observe or enforce"],
        ),
        ("--reason-mode", "gone=off", &["dead-backend, reused"]),
        ("--reason-mode", "none=off", &["dead-backend, reused"]),
        ("--action", "refuse", &["drop or reject"]),
        ("--action", "stale=drop", &["dead-backend, reused"]),
    ] {
        let error = agent(&["--node-name", "n", flag, value]).unwrap_err();
        let mut lines = error.lines();
        let (first, list) = (lines.next().unwrap(), lines.next().unwrap());
        let list = list
            .strip_prefix("  [possible values: ")
            .unwrap_or_default();
        let is_named = |part: &&str| first.contains(part) || list.contains(part);
        assert!(parts.iter().all(is_named), "{flag} {value}: {error}");
    }
}

#[test]
fn hooks_are_chosen_by_name_and_stay_attached_by_default() {
    let five = Duration::from_secs(5);
    for (args, expected) in [
        (&["--node-name", "n"][..], (Hooks::Auto, false, five)),
        (
            &["--node-name", "n", "--hooks", "clsact", "--detach-on-exit"],
            (Hooks::Clsact, true, five),
        ),
        (
            &["--node-name", "n", "--clsact-delay", "0"],
            (Hooks::Auto, false, Duration::ZERO),
        ),
    ] {
        let agent = agent(args).unwrap();
        assert_eq!(
            (agent.hooks, agent.detach_on_exit, agent.clsact_delay),
            expected,
            "{args:?}"
        );
    }
}

#[test]
fn the_mode_command_takes_a_mode_and_the_pins_and_shows_the_mode_without_one() {
    for (args, mode, reason, pins) in [
        (
            &["enforce", "--pin-dir", "/p"][..],
            Some(Mode::Enforce),
            None,
            "/p",
        ),
        (
            &["--reason", "terminated", "observe"],
            Some(Mode::Observe),
            Some(Reason::Terminated),
            PINS,
        ),
        (&[], None, None, PINS),
    ] {
        let cli = Cli::try_parse_from([&["epguard", "mode"], args].concat()).unwrap();
        let Command::Mode(found) = cli.command else {
            panic!("{args:?}")
        };
        assert_eq!(
            (found.mode, found.reason, found.pins.pin_dir),
            (mode, reason, pins.into()),
            "{args:?}"
        );
    }
    let error = Cli::try_parse_from(["epguard", "mode", "maybe"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("off, observe, enforce"), "{error}");
}

#[test]
fn xdp_is_chosen_by_name_and_required_only_if_its_mode_is_named() {
    let default = agent(&["--node-name", "n"]).unwrap();
    assert_eq!(default.xdp, Xdp::Off);
    for (name, xdp, demanded) in [
        ("auto", Xdp::Auto, false),
        ("driver", Xdp::Driver, true),
        ("off", Xdp::Off, false),
    ] {
        let chosen = agent(&["--node-name", "n", "--xdp", name]).unwrap().xdp;
        assert_eq!((chosen, chosen.is_demanded()), (xdp, demanded));
    }
}

#[test]
fn a_service_is_named_in_full() {
    assert!(service("shop/web").is_ok());
    assert!(service("web").is_err() && service("/web").is_err() && service("shop/").is_err());
}
