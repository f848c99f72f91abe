//! What the command line accepts.

use super::*;
use crate::kernel::datapath::{Hooks, Xdp};
use crate::node::netlink::Glob;
use crate::shared::args::service;
use clap::FromArgMatches as _;
use epguard_common::{Mode, Reason};
use epguard_core::state::Ipam;
use std::path::PathBuf;
use std::time::Duration;

/// Parses without the variable `NODE_NAME` of the tests' environment.
fn agent(args: &[&str]) -> Result<AgentArgs, String> {
    let args = ["epguard", "agent"].iter().chain(args);
    let cli = Cli::command().mut_subcommand("agent", |agent| agent.mut_arg("node_name", |arg| arg.env(None)));
    let matches = cli.try_get_matches_from(args).map_err(|e| e.to_string())?;
    match Cli::from_arg_matches(&matches).map_err(|e| e.to_string())?.command {
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
    assert_eq!(agent.pins.pin_dir, PathBuf::from("/sys/fs/bpf/epguard"));
    assert_eq!(agent.run.run_dir, PathBuf::from("/run/epguard"));
    assert!(agent.selection().pods.is_empty() && agent.selection().uplinks.is_empty());
}

#[test]
fn a_missing_empty_or_unsubstituted_node_name_is_refused_in_one_line_with_its_remedy() {
    for args in [&[][..], &["--node-name", ""], &["--node-name", "$(NODE_NAME)"]] {
        let error = agent(args).unwrap_err();
        let line = error.lines().next().unwrap();
        assert!(line.contains("--node-name <NAME>"), "{error}");
        assert!(line.contains("set NODE_NAME from the pod's spec.nodeName"), "{error}");
    }
}

#[test]
fn an_unknown_mode_names_the_known_ones() {
    let error = agent(&["--node-name", "n", "--mode", "deny"]).unwrap_err();
    assert!(error.contains("'deny'"), "{error}");
    assert!(error.contains("off, observe, enforce"), "{error}");
}

#[test]
fn a_lease_out_of_range_names_the_range() {
    let error = agent(&["--node-name", "n", "--lease", "2"]).unwrap_err();
    assert!(error.contains("3..=300"), "{error}");
}

#[test]
fn interfaces_may_be_given_with_commas_and_repeatedly() {
    let args = ["--pod-interfaces", "cali*,tap*", "--pod-interfaces=veth*", "--uplinks", "eth0", "eth1"];
    let agent = agent(&[&["--node-name", "n"], &args[..]].concat()).unwrap();
    let globs = |globs: &[Glob]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(globs(&agent.pod_interfaces), ["cali*", "tap*", "veth*"]);
    assert_eq!(globs(&agent.uplinks), ["eth0", "eth1"]);
}

#[test]
fn the_mode_command_takes_a_mode_and_the_pins() {
    let cli = Cli::try_parse_from(["epguard", "mode", "enforce", "--pin-dir", "/p"]).unwrap();
    match cli.command {
        Command::Mode(args) => {
            assert_eq!((args.mode, args.reason, args.pins.pin_dir), (Some(Mode::Enforce), None, "/p".into()));
        }
        other => panic!("{other:?}"),
    }
    let cli = Cli::try_parse_from(["epguard", "mode", "--reason", "terminated", "observe"]).unwrap();
    match cli.command {
        Command::Mode(args) => {
            assert_eq!((args.mode, args.reason), (Some(Mode::Observe), Some(Reason::Terminated)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn hooks_are_chosen_by_name_and_stay_attached_by_default() {
    let default = agent(&["--node-name", "n"]).unwrap();
    assert_eq!((default.hooks, default.detach_on_exit), (Hooks::Auto, false));
    let forced = agent(&["--node-name", "n", "--hooks", "clsact", "--detach-on-exit"]).unwrap();
    assert_eq!((forced.hooks, forced.detach_on_exit), (Hooks::Clsact, true));
    let error = agent(&["--node-name", "n", "--hooks", "xdp"]).unwrap_err();
    assert!(error.contains("auto, tcx, clsact"), "{error}");
}

#[test]
fn xdp_is_chosen_by_name_and_required_only_if_its_mode_is_named() {
    let default = agent(&["--node-name", "n"]).unwrap();
    assert_eq!(default.xdp, Xdp::Off);
    for (name, xdp, demanded) in [
        ("auto", Xdp::Auto, false),
        ("driver", Xdp::Driver, true),
        ("generic", Xdp::Generic, true),
        ("off", Xdp::Off, false),
    ] {
        let chosen = agent(&["--node-name", "n", "--xdp", name]).unwrap().xdp;
        assert_eq!((chosen, chosen.is_demanded()), (xdp, demanded));
    }
}

#[test]
fn the_clsact_delay_is_5_seconds_by_default() {
    let delay = |args: &[&str]| agent(&[&["--node-name", "n"], args].concat()).map(|args| args.clsact_delay);
    assert_eq!(delay(&[]).unwrap(), Duration::from_secs(5));
    assert_eq!(delay(&["--clsact-delay", "0"]).unwrap(), Duration::ZERO);
    let error = delay(&["--clsact-delay", "301"]).unwrap_err();
    assert!(error.contains("0..=300"), "{error}");
}

#[test]
fn a_service_is_named_in_full() {
    assert!(service("shop/web").is_ok());
    assert!(service("web").is_err() && service("/web").is_err() && service("shop/").is_err());
}

#[test]
fn the_mode_command_without_a_mode_shows_it() {
    let cli = Cli::try_parse_from(["epguard", "mode"]).unwrap();
    assert!(matches!(cli.command, Command::Mode(args) if args.mode.is_none()));
}
