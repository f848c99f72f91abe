//! /metrics, /healthz and /readyz of the real agent, with a packet that it denies.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod agent;

use agent::{World, dead_pod, service, slice};
use epguard_lab::api::Kind;
use epguard_lab::proxy::{Proxy, ProxyOptions, service_rules};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const LISTEN: &str = "127.0.0.1:9467";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_denied_packet_the_view_and_the_maps_are_told_to_whoever_scrapes() {
    let mut world = World::new("metrics");
    world.server.faults(|faults| faults.hang = true);
    let kubeconfig = world.server.kubeconfig();
    let short = ["--max-view-age", "3", "--lease", "3"];
    world.start(&kubeconfig, &[&short[..], &["--metrics-listen", LISTEN]].concat());
    world.until("started", |_| true);
    assert_eq!(get(&world, "/healthz"), (200, "ok\n".into()));
    let (code, checks) = get(&world, "/readyz");
    assert_eq!(code, 503, "{checks}");
    assert!(
        checks.contains("[-]sync failed: not listed yet: endpointslices, "),
        "{checks}"
    );

    deny(&mut world);
    let (code, checks) = get(&world, "/readyz");
    assert_eq!(
        (code, checks.as_str()),
        (200, "[+]sync ok\n[+]hooks ok\n[+]lease ok\n")
    );
    connect_to_the_service(&world);
    let (code, text) = get(&world, "/metrics");
    assert_eq!(code, 200, "{text}");
    let (seen, expected) = (masked(&text), include_str!("metrics/expected.txt"));
    assert_eq!(seen, expected, "{seen}");

    world.server.faults(|faults| faults.outage = true);
    world.until("past the lease", |status| status.lease_ms < 0);
    let (code, checks) = get(&world, "/readyz");
    assert_eq!(code, 503);
    assert!(
        checks.contains("[-]lease failed: the view is too old (3 s)"),
        "{checks}"
    );
    assert_eq!(get(&world, "/other").0, 404);
}

/// A dead pod that a Service still lists, behind an interface of the node.
fn deny(world: &mut World) {
    for arguments in [
        "address add 10.244.1.1/24 dev va",
        "link set va up",
        "link set vb up",
        "route add default dev va",
        "neigh add 10.244.1.10 lladdr 02:00:00:00:00:01 dev va",
    ] {
        let mut ip = world.netns.command("ip");
        assert!(ip.args(arguments.split(' ')).status().unwrap().success());
    }
    world.store.ensure_namespace("shop").unwrap();
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"},
        "spec": {"podCIDRs": ["10.244.1.0/24"]}, "status": {}});
    world.store.apply(node).unwrap();
    let mut web = service("web", "10.96.0.1");
    web["spec"]["ports"] = json!([{"port": 80, "targetPort": 8080}]);
    world.store.apply(web).unwrap();
    let dead = world.store.apply(dead_pod("a", "10.244.1.10")).unwrap();
    let ports = json!([{"port": 8080}]);
    let slice = slice("web-1", "web", "10.244.1.10", &dead["metadata"]["uid"], &ports);
    world.store.apply(slice).unwrap();
    let (services, slices) = (
        world.store.list(Kind::Service),
        world.store.list(Kind::EndpointSlice),
    );
    let proxy = Proxy::new(&world.netns, ProxyOptions::default());
    proxy.program(&service_rules(&services, &slices)).unwrap();
    world.server.faults(|faults| faults.hang = false);
    world.until("denying", |status| {
        !status.services.is_empty() && status.lease_ms > 0 && status.breaker.is_empty()
    });
}

/// Sends one SYN; the kernel would repeat it after a second.
fn connect_to_the_service(world: &World) {
    let service: SocketAddr = "10.96.0.1:80".parse().unwrap();
    let connected = world
        .netns
        .run(|| TcpStream::connect_timeout(&service, Duration::from_millis(200)))
        .unwrap();
    assert!(connected.is_err());
}

fn get(world: &World, path: &str) -> (u16, String) {
    let answer = world.netns.run(|| -> std::io::Result<String> {
        let mut stream = TcpStream::connect(LISTEN)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {LISTEN}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    let answer = answer.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

/// Without values that are times, and without what explains.
fn masked(text: &str) -> String {
    let samples = text.lines().filter(|line| !line.starts_with("# HELP"));
    samples
        .map(|line| match line.rsplit_once(' ') {
            Some((name, _)) if name.contains("_seconds") && !name.starts_with('#') => format!("{name} *\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}
