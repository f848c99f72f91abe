//! `cargo xtask bench outage`: time until the lease is back in the maps after an API server was away for 60 s.
//!
//! One agent with the defaults and one denial. During the outage the server's port refuses connections and its open ones
//! break. The server comes back with its history, and as a new process without it: then every watch gets 410 and lists
//! again. `ROUNDS=1` is quicker.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/agent/world.rs"]
mod agent;
#[path = "support/mod.rs"]
mod support;

use agent::{World, dead_pod, service, slice};
use aya::maps::{Array, Map};
use epguard::kernel::maps;
use epguard::shared::clock::boot;
use epguard_common::View;
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

const AWAY: Duration = Duration::from_mins(1);

fn main() {
    let rounds = support::number("ROUNDS", 5);
    let runtime = support::runtime();
    let _context = runtime.enter();
    let rows = [("history kept", false), ("history gone", true)].map(|(what, forgets)| {
        let took = (0..rounds).map(|_| round(forgets)).collect();
        (what.to_owned(), took)
    });
    support::print(["after 60 s away", "lease back, median", "all"], rows);
}

/// The time from the server's first accepted connection to a lease in the map.
fn round(forgets: bool) -> Duration {
    let mut world = World::new("outage");
    let spec = json!({"podCIDRs": ["10.244.1.0/24"]});
    let node =
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": spec, "status": {}});
    world.store.apply(node).unwrap();
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    let kubeconfig = world.server.kubeconfig();
    world.start(&kubeconfig, &[]);
    world.until("synced", |status| status.synced);
    let dead = world.store.apply(dead_pod("a", "10.244.1.10")).unwrap();
    let (uid, ports) = (&dead["metadata"]["uid"], json!([{"port": 8080}]));
    let listed = slice("web-1", "web", "10.244.1.10", uid, &ports);
    world.store.apply(listed).unwrap();
    world.until("denying", |status| {
        !status.services.is_empty() && status.lease_ms > 0
    });
    let port = world.server.address().port();
    let refuse = format!(
        "add table inet away; add chain inet away in {{ type filter hook input priority 0; }}; \
         add rule inet away in tcp dport {port} reject with tcp reset"
    );
    nft(&world, &refuse);
    world.server.faults(|faults| faults.outage = true);
    sleep(AWAY);
    assert!(!has_lease(&world), "the lease outlived the view");
    if forgets {
        world.store.forget_history();
    }
    world.server.faults(|faults| faults.outage = false);
    nft(&world, "delete table inet away");
    let back = Instant::now();
    while !has_lease(&world) {
        assert!(
            back.elapsed() < Duration::from_mins(2),
            "no lease: {}",
            world.log()
        );
        sleep(Duration::from_millis(1));
    }
    back.elapsed()
}

fn nft(world: &World, command: &str) {
    let status = world.netns.command("nft").arg(command).status();
    assert!(status.unwrap().success(), "{command}");
}

/// True if the map has a lease, by the same comparison as in the programs.
fn has_lease(world: &World) -> bool {
    let map = Map::Array(maps::open(&world.dir.join("bpf/epguard"), "VIEW").unwrap());
    let view: Array<_, View> = map.try_into().unwrap();
    u128::from(view.get(&0, 0).unwrap().lease_deadline_ns) > boot().as_nanos()
}
