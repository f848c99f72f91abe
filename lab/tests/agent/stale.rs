//! A Service whose only endpoint is a dead pod, with the routes and the proxy rules that lead a packet there.

use super::world::{World, service};
use serde_json::json;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A dead pod that a Service still lists, behind an interface of the node.
pub fn deny(world: &mut World) {
    let lines = [
        "address add 10.244.1.1/24 dev va",
        "link set va up",
        "link set vb up",
        "route add default dev va",
        "neigh add 10.244.1.10 lladdr 02:00:00:00:00:01 dev va",
    ];
    world.netns.ip(&lines).unwrap();
    world.store.ensure_namespace("shop").unwrap();
    world.gets_range("10.244.1.0/24");
    let mut web = service("web", "10.96.0.1");
    web["spec"]["ports"] = json!([{"port": 80, "targetPort": 8080}]);
    world.store.apply(web).unwrap();
    world.list_dead("a", "10.244.1.10", "web", "TCP");
    world.program_proxy();
    world.server.faults(|faults| faults.hang = false);
    world.until("denying", |status| {
        !status.services.is_empty() && status.lease_ms > 0 && status.breaker.is_empty()
    });
}

/// Sends one SYN; the kernel would repeat it after a second.
pub fn connect_to_the_service(world: &World) {
    let service: SocketAddr = "10.96.0.1:80".parse().unwrap();
    let connected =
        world.netns.run(|| TcpStream::connect_timeout(&service, Duration::from_millis(200))).unwrap();
    assert!(connected.is_err());
}
