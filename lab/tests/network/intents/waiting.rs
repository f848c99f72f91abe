//! Datagrams that wait for the resolution of a neighbour leave later, from another context;
//! enforcing begins while four callers send.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use epguard_common::{Mode, Outcome};
use epguard_core::state::Tables;
use epguard_lab::net::TopologyOptions;

use super::clients::BRIDGE;
use super::figures::{Aim, Denied, Direct, Other, in_mode, judged_right, send, send_all};
use super::world::{Plan, World};

const ORDERS: [&[Aim]; 5] = [
    &[Direct, Denied],
    &[Denied, Direct],
    &[Denied, Direct, Other, Denied, Direct],
    &[Direct, Direct, Denied, Denied],
    &[Denied],
];

/// Pod X answers no solicitation during `work`.
fn while_deaf(world: &mut World, work: impl FnOnce(&mut World) -> [u64; 3]) -> [u64; 3] {
    world.shell("bank/x", DEAF);
    world.shell("node-a", "ip neigh flush all; ip -6 neigh flush all");
    let aimed = work(world);
    world.shell("bank/x", "nft delete table netdev deaf");
    aimed
}

const DEAF: &str = "nft 'add table netdev deaf; \
    add chain netdev deaf in { type filter hook ingress device eth0 priority 0; }; \
    add rule netdev deaf in ether type arp drop; \
    add rule netdev deaf in icmpv6 type nd-neighbor-solicit drop'";

/// Each origin, on each kind of network.
fn each(test: impl Fn(World, &str)) {
    for host in ["shop/client", "node-a"] {
        for options in [TopologyOptions::default(), BRIDGE] {
            for ipv6 in [false, true] {
                let plan = Plan {
                    options,
                    ipv6,
                    ..Plan::default()
                };
                test(World::new(plan), host);
            }
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn datagrams_that_waited_are_judged_each_by_its_own_aim() {
    each(|mut world, host| {
        let socket = world.socket(host);
        for aims in ORDERS {
            let case = format!("neighbour pending, {host}, {aims:?}");
            judged_right(&mut world, &case, |world| {
                while_deaf(world, |world| send_all(world, &socket, aims))
            });
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn datagrams_that_wait_when_the_denial_begins_are_denied_when_they_leave() {
    each(|mut world, host| {
        let socket = world.socket(host);
        let aims = [Denied, Other, Direct, Denied];
        let case = format!("neighbour pending, denied later, {host}");
        let figures = in_mode(&mut world, &case, Mode::Enforce, |world| {
            world.hooks.writer.install(&Tables::default()).unwrap();
            while_deaf(world, |world| {
                let aimed = send_all(world, &socket, &aims);
                world.hooks.writer.install(&world.tables).unwrap();
                aimed
            })
        });
        figures.all_right(world.ipv6);
    });
}

const RUNS: u32 = 50;
const STEP: Duration = Duration::from_millis(25);

/// Datagrams that were observed, were dropped, and arrived so far.
fn counted(world: &World) -> [u64; 3] {
    let packets = |outcome| world.hooks.packets(&[outcome]).unwrap();
    let arrived = world.sink.arrived()[Denied as usize];
    [
        packets(Outcome::Observed),
        packets(Outcome::Dropped),
        arrived,
    ]
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn each_datagram_is_counted_once_and_none_passes_once_enforcing_has_begun() {
    let mut world = World::new(Plan::default());
    let far = IpAddr::from([10, 244, 2, 9]);
    world.lab.add_pod("node-b", "shop/far", &[far]).unwrap();
    let vip = world.address(Denied);
    let node_port = world.node_port(Denied);
    let mut all = [0; 3];
    for run in 0..RUNS {
        world.hooks.set_mode(Mode::Observe).unwrap();
        let before = counted(&world);
        let callers = [
            (world.socket("shop/client"), vip),
            (world.socket("node-a"), vip),
            (world.socket("external"), node_port),
            (world.socket("shop/far"), node_port),
        ];
        let end = AtomicBool::new(false);
        let (sent, early) = scope(|scope| {
            let senders = callers.map(|(socket, to)| {
                let end = &end;
                scope.spawn(move || {
                    let mut sent = 0;
                    while !end.load(Ordering::SeqCst) {
                        send(|| socket.send_to(&[Denied as u8; 64], to));
                        sent += 1;
                        sleep(Duration::from_micros(200));
                    }
                    sent
                })
            });
            sleep(STEP);
            world.hooks.set_mode(Mode::Enforce).unwrap();
            // A datagram that was at the hook just then may pass.
            sleep(STEP);
            let early = counted(&world);
            sleep(STEP);
            end.store(true, Ordering::SeqCst);
            (
                senders
                    .map(|sender| sender.join().unwrap())
                    .into_iter()
                    .sum(),
                early,
            )
        });
        let since = |now: [u64; 3]| std::array::from_fn(|place| now[place] - before[place]);
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut now: [u64; 3] = since(counted(&world));
        while (now[0] + now[1] < sent || now[2] < now[0]) && Instant::now() < deadline {
            sleep(Duration::from_millis(1));
            now = since(counted(&world));
        }
        let [observed, dropped, arrived] = now;
        assert_eq!(observed + dropped, sent, "run {run}: {now:?}");
        assert_eq!(arrived, observed, "run {run}: {now:?}");
        assert_eq!(since(early)[0], observed, "run {run}: one passed later");
        all = std::array::from_fn(|place| all[place] + now[place]);
    }
    println!("{RUNS} runs: observed, dropped and arrived {all:?}");
}
