//! Enforcing begins while four callers send.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::figures::{Denied, send};
use super::world::{Plan, World};
use epguard_common::{Mode, Outcome};

const RUNS: u32 = 50;
const STEP: Duration = Duration::from_millis(25);

/// Datagrams that were observed, were dropped, and arrived so far.
fn counted(world: &World) -> [u64; 3] {
    let packets = |outcome| world.hooks.packets(&[outcome]).unwrap();
    let arrived = world.sink.arrived()[Denied as usize];
    [packets(Outcome::Observed), packets(Outcome::Dropped), arrived]
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn each_datagram_is_counted_once_and_none_passes_once_enforcing_has_begun() {
    let mut world = World::new(Plan::default());
    let far = IpAddr::from([10, 244, 2, 9]);
    world.lab.add_pod("node-b", "shop/far", &[far]).unwrap();
    let (vip, node_port) = (world.address(Denied), world.node_port(Denied));
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
            (senders.map(|sender| sender.join().unwrap()).into_iter().sum(), early)
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
