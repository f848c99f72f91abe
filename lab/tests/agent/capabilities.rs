//! The real agent with the capabilities of `deploy/epguard.yaml` and no others.

use super::stale::{connect_to_the_service, deny};
use super::world::{World, manifest};
use epguard::kernel::maps;
use epguard_common::{Outcome, Reason};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Numbers of capabilities (linux/capability.h).
const KNOWN: [(&str, u32); 3] = [("NET_ADMIN", 12), ("PERFMON", 38), ("BPF", 39)];

/// The capabilities that the manifest adds after it drops all.
fn named() -> Vec<(String, u32)> {
    let context = &manifest("DaemonSet")["spec"]["template"]["spec"]["containers"][0]["securityContext"];
    let names = context["capabilities"]["add"].as_array().unwrap().iter();
    let number = |name: &str| KNOWN.iter().find(|known| known.0 == name).unwrap().1;
    names.map(|name| name.as_str().unwrap()).map(|name| (name.to_owned(), number(name))).collect()
}

/// Drops all other capabilities, and the ways to get them back, as a container runtime does.
fn confine(command: &mut Command, kept: Vec<u32>) {
    let confine = move || {
        for capability in (0..=63).filter(|capability| !kept.contains(capability)) {
            // SAFETY: changes only this process's bounding set; a number that the kernel does not know is refused.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        // SAFETY: changes only this process.
        let failed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure only makes system calls and reads memory that was allocated before.
    unsafe { command.pre_exec(confine) };
}

fn start(name: &str, hooks: &str, kept: &[u32]) -> World {
    let mut world = World::new(name);
    world.start_as(&world.server.kubeconfig(), &["--hooks", hooks], |command| {
        confine(command, kept.to_vec());
    });
    world
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_named_capabilities_are_enough_to_deny_a_packet() {
    let numbers: Vec<u32> = named().iter().map(|(_, number)| *number).collect();
    let mask: u64 = numbers.iter().map(|number| 1 << number).sum();
    for hooks in ["tcx", "clsact"] {
        let mut world = start(&format!("caps-{hooks}"), hooks, &numbers);
        deny(&mut world);
        let process = std::fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
        assert!(process.contains(&format!("CapEff:\t{mask:016x}\n")), "{process}");
        connect_to_the_service(&world);
        let counters = maps::counters(&world.dir.join("bpf/epguard")).unwrap();
        assert_eq!(counters[&(Reason::DeadBackend, Outcome::Dropped)].packets, 1, "{hooks}");
        let status = world.status();
        assert!(status.interfaces.iter().all(|interface| interface.attached), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn without_any_one_capability_the_agent_ends_and_names_the_failed_step() {
    for (missing, number) in named() {
        let others = named().into_iter().map(|(_, other)| other);
        let kept: Vec<u32> = others.filter(|other| *other != number).collect();
        let outcome = start("caps-less", "tcx", &kept).outcome();
        assert!(
            outcome.contains("needs Linux 5.14, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"),
            "without {missing}: {outcome}"
        );
        println!("without {missing}: {}", outcome.lines().last().unwrap_or_default());
    }
}
