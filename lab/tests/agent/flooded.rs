//! The real agent while packets to hundreds of denied endpoints are reported at the highest rate.

use super::world::{World, service};
use epguard_lab::wait::Repeated;
use serde_json::json;
use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::Duration;

const SUSPECTS: usize = 300;
/// Reports that the agent must have skipped before the test ends.
const SKIPPED: u64 = 5_000;
const RENEWALS: usize = 3;

fn ip(number: usize) -> String {
    format!("10.244.{}.{}", 1 + number / 200, 10 + number % 200)
}

fn vip(number: usize) -> SocketAddr {
    let vip = format!("10.96.{}.{}:80", number / 200, 1 + number % 200);
    vip.parse().unwrap()
}

/// Services whose only endpoint is a dead pod each, and the routes and rules that lead packets
/// there.
fn deny(world: &mut World) {
    let lines = [
        "link set va up",
        "link set vb up",
        "address add 10.244.0.1/16 dev va",
        "route add default dev va",
    ];
    let mut lines = lines.map(str::to_owned).to_vec();
    world.store.ensure_namespace("shop").unwrap();
    world.gets_range("10.244.0.0/16");
    for number in 0..SUSPECTS {
        let ip = ip(number);
        let name = format!("web-{number}");
        lines.push(format!("neigh add {ip} lladdr 02:00:00:00:00:01 dev va"));
        let mut service = service(&name, &vip(number).ip().to_string());
        service["spec"]["ports"] = json!([{"port": 80, "targetPort": 8080, "protocol": "UDP"}]);
        world.store.apply(service).unwrap();
        world.list_dead(&name, &ip, &name, "UDP");
    }
    world.netns.ip(&lines).unwrap();
    world.program_proxy();
}

/// Sends to all Services in turn, without a pause.
fn pour() -> impl FnMut() {
    let socket = |number| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect(vip(number)).unwrap();
        socket
    };
    let sockets: Vec<UdpSocket> = (0..SUSPECTS).map(socket).collect();
    move || {
        for socket in &sockets {
            let _ = socket.send(b"x");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_flood_over_300_suspects_ends_no_lease_and_skipped_reports_are_counted() {
    let mut world = World::new("flooded");
    deny(&mut world);
    world.start(&["--lease", "10"]);
    world.until("denying all", |status| {
        let denied = status.figures.maps.get("DENIED");
        denied.is_some_and(|fill| fill.entries >= SUSPECTS)
            && status.lease_ms > 0
            && status.breaker.is_empty()
    });
    let netns = world.netns.clone();
    let _flood = Repeated::start(move || {
        netns.enter().unwrap();
        pour()
    });
    let renewals = Cell::new(0);
    let last = Cell::new(i64::MAX);
    let status = world.until("renewing its lease while it skips reports", |status| {
        // The agent has enough to do.
        sleep(Duration::from_millis(50));
        assert!(
            status.lease_ms > 0,
            "the lease has ended: {}",
            status.lease_ms
        );
        renewals.set(renewals.get() + usize::from(status.lease_ms > last.replace(status.lease_ms)));
        renewals.get() >= RENEWALS && status.figures.events_skipped >= SKIPPED
    });
    println!(
        "{} reports skipped, {} renewals",
        status.figures.events_skipped,
        renewals.get()
    );
}
