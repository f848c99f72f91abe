//! A packet is judged once on its way through the node.

use super::*;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};

/// Runs the frame at this interface.
fn run_at(rig: &mut Rig, ifindex: u32, frame: &[u8]) -> i32 {
    rig.ifindex = ifindex;
    rig.run(BOTH, frame).action
}

/// Two interfaces of this role, in a namespace of the test's own.
fn two(role: Role) -> (Rig, [u32; 2]) {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    ip("link add one type veth peer name two");
    let mut rig = Rig::new();
    let two = ["one", "two"].map(|name| if_nametoindex(name).unwrap());
    for ifindex in two {
        rig.put_keyed("INTERFACES", &ifindex, RawRole::from(role));
    }
    rig.write_view(View {
        relays: role.hands_on().into(),
        ..FRESH
    });
    rig.tracked = Some(of(REUSED, TCP));
    (rig, two)
}

/// The frame with another source port: behind an Ethernet header and one of IPv4.
fn from_another_port(mut frame: Vec<u8>) -> Vec<u8> {
    frame[14 + 20 + 1] ^= 1;
    frame
}

fn packets(rig: &mut Rig, outcome: Outcome) -> u64 {
    let counters = rig.counters();
    counters
        .get(&(Reason::Reused, outcome))
        .map_or(0, |(packets, _)| *packets)
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_copies_that_a_bridge_makes_of_a_packet_count_once_and_share_its_verdict() {
    let (mut rig, ports) = two(Role::Pod);
    for mode in [Mode::Enforce, Mode::Observe] {
        rig.configure(Config { mode, ..ENFORCE });
        let (action, outcome) = match mode {
            Mode::Enforce => (DROP, Outcome::Dropped),
            _ => (PASS, Outcome::Observed),
        };
        // Copies come within a millisecond. On a busy machine two test runs may be further apart.
        let count_once = (0..100).any(|_| {
            rig.forget_counters();
            rig.events();
            let actions = ports.map(|port| run_at(&mut rig, port, &syn(REUSED)));
            assert_eq!(actions, [action; 2]);
            let seen = (packets(&mut rig, outcome), rig.events().len());
            seen == (1, 1)
        });
        assert!(count_once, "{mode:?}");
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn packets_that_are_no_copies_are_counted_one_by_one() {
    let (mut rig, [one, two]) = two(Role::Pod);
    for (name, port, frame) in [
        ("the first", one, syn(REUSED)),
        ("again at the same port", one, syn(REUSED)),
        (
            "of another connection whose entry lies at the same address",
            two,
            from_another_port(syn(REUSED)),
        ),
        (
            "of another length",
            two,
            frame(&packet(REUSED, TCP, &[tcp(PORT, ACK), vec![0]].concat())),
        ),
    ] {
        rig.forget_counters();
        run_at(&mut rig, port, &frame);
        assert_eq!(packets(&mut rig, Outcome::Dropped), 1, "{name}");
    }
    rig.forget_counters();
    std::thread::sleep(std::time::Duration::from_millis(2));
    run_at(&mut rig, one, &syn(REUSED));
    std::thread::sleep(std::time::Duration::from_millis(2));
    run_at(&mut rig, two, &syn(REUSED));
    assert_eq!(
        packets(&mut rig, Outcome::Dropped),
        2,
        "later than a bridge hands copies on"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_hook_that_a_packet_leaves_the_node_by_judges_it() {
    for (role, judged) in [
        (Role::Pod, true),
        (Role::Uplink, true),
        (Role::Tunnel, true),
        (Role::Bridge, true),
        (Role::Stacked, false),
        (Role::Relay, false),
    ] {
        let (mut rig, [port, _]) = two(role);
        let action = run_at(&mut rig, port, &syn(REUSED));
        assert_eq!(action, if judged { DROP } else { PASS }, "{role:?}");
    }
}
