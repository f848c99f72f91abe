//! Interfaces that are made again under a running agent while the kernel announces more changes
//! than the agent's sockets hold.

use crate::stage::{netns, stage, until};
use aya::programs::{SchedClassifier, TcAttachType};
use epguard_lab::net::NetNs;
use nix::libc;

/// Announcements, each of some kilobytes; a socket holds 208 kB.
const STORM: usize = 2000;
const OVERRUNS: usize = 5;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn interfaces_recreated_during_an_overrun_are_hooked_after_it() {
    let stage = stage("agent: {mode: enforce}\npods: {}\nsteps:\n  - pods: []\n");
    let node = netns(&stage, "node-a").clone();
    let make = "link add same index 7001 type veth peer name peer index 7002".to_owned();
    node.ip(std::slice::from_ref(&make)).unwrap();
    await_hooks(&node, "same");
    let pid = i32::try_from(stage.agent.pid().unwrap()).unwrap();
    let mut lost = drops(&node);
    for _ in 0..OVERRUNS {
        signal(pid, libc::SIGSTOP);
        let mut lines: Vec<String> = (0..STORM)
            .map(|n| format!("link set lo alias a{n}"))
            .collect();
        lines.extend((0..STORM).map(|n| {
            let high = n / 250;
            let low = n % 250 + 1;
            format!("neighbour replace 198.18.{high}.{low} lladdr 02:00:00:00:00:01 dev eth0 nud permanent")
        }));
        // After the overrun, so that these changes are not announced.
        lines.extend(["link delete same".to_owned(), make.clone()]);
        node.ip(&lines).unwrap();
        let now = drops(&node);
        assert!(now > lost, "no overrun");
        lost = now;
        assert!(!is_hooked(&node, "same"));
        signal(pid, libc::SIGCONT);
        await_hooks(&node, "same");
    }
    let errors = stage.agent.log().matches("\"ERROR\"").count();
    assert_eq!(errors, 0, "{}", stage.agent.log());
    println!("{lost} announcements lost");
}

/// Messages that netlink sockets of this network namespace had no room for.
fn drops(netns: &NetNs) -> u64 {
    let sockets = netns.run(|| std::fs::read_to_string("/proc/thread-self/net/netlink"));
    sockets
        .unwrap()
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok())
        .sum()
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: no pointers; the agent is our own child, not waited for yet.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Whether the egress hook is there; false without such an interface.
fn is_hooked(netns: &NetNs, link: &str) -> bool {
    let programs = || SchedClassifier::query_tcx(link, TcAttachType::Egress);
    netns
        .run(programs)
        .unwrap()
        .is_ok_and(|(_, programs)| !programs.is_empty())
}

/// Waits until the hook is seen.
pub(crate) fn await_hooks(netns: &NetNs, link: &str) {
    until(&format!("{link} is hooked"), || is_hooked(netns, link));
}
