//! Events of the Kubernetes API about denied packets, by the real agent.

use super::rbac::bind_without;
use super::world::World;
use epguard::daemon::report::metrics;
use epguard::kernel::maps;
use epguard::shared::drops::Dropped;
use epguard::shared::status::{self, Request};
use epguard_common::{Count, Outcome, Reason};
use epguard_lab::api::Kind;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn forbidden_events_are_logged_once_and_everything_else_goes_on() {
    let mut world = denying(
        "events-forbidden",
        &["create events.k8s.io/events", "patch events.k8s.io/events"],
    );
    call(&world, 1);
    until(&world, "refused", |world| {
        world.log().contains("cannot create Events")
    });
    reuse(&mut world);
    call(&world, 1);
    until(&world, "reported", |world| {
        world.log().contains("hit=\"team-b/b\"")
    });
    await_freshness_checks(&world);
    assert_eq!(
        world.server.api.access.refused(),
        ["create events.k8s.io/events"],
        "{}",
        world.log()
    );
    let log = world.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("Events")).collect();
    assert!(
        said.len() == 1
            && said[0]
                .contains("allow the agent's account create and patch on events in events.k8s.io"),
        "{said:?}"
    );
    until(&world, "denying", |world| world.status().lease_ms > 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn events_and_the_datapaths_own_log_are_written_only_as_the_operator_chooses() {
    let judged = |world: &World| {
        world
            .log()
            .contains("epguard_ebpf::telemetry: ::ffff:10.244.1.1 -> ::ffff:10.244.1.10 reason 1")
    };
    for (options, is_asked) in [
        (&["--events=none"][..], false),
        (&["--events=breaker", "--debug-datapath"], true),
    ] {
        let mut world = World::new("events-off");
        start(&mut world, options);
        world.deny();
        call(&world, 1);
        until(&world, "reported", |world| {
            world.log().contains("dead-backend")
        });
        until(&world, "judged", |world| !is_asked || judged(world));
        await_freshness_checks(&world);
        assert_eq!(
            world.server.api.audit.count("create", "/events"),
            0,
            "{options:?}"
        );
        assert_eq!(judged(&world), is_asked);
    }
}

/// Long enough for another attempt.
fn await_freshness_checks(world: &World) {
    let count = |world: &World| world.server.api.audit.count("list", "/pods");
    let checked = count(world);
    until(world, "checked", |world| count(world) > checked + 2);
}

/// Processes on the node, by their addresses.
const CLIENTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 244, 1, 1), Ipv4Addr::new(10, 244, 1, 2)];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_flood_of_two_clients_is_one_number_in_the_kernel_in_drops_in_metrics_in_events_and_in_the_log()
 {
    const EACH: u64 = 2_500;
    const ALL: u64 = 2 * EACH;
    let mut world = denying("flood", &[]);
    world
        .netns
        .ip(&["address add 10.244.1.2/24 dev va"])
        .unwrap();
    reuse(&mut world);
    let opened = world.netns.run(|| {
        for _ in 0..EACH {
            CLIENTS.into_iter().for_each(open);
        }
    });
    opened.unwrap();

    until(&world, "counted", |world| kernel(world).packets >= ALL);
    let counted = kernel(&world);
    assert_eq!((counted.packets, counted.openings), (ALL, ALL));
    let rows = drops(&world);
    let sum = |of: fn(&Dropped) -> u64| rows.iter().map(of).sum::<u64>();
    assert_eq!(
        (sum(|row| row.packets), sum(|row| row.openings)),
        (ALL, ALL)
    );
    assert_eq!(sum(|row| row.bytes), counted.bytes);
    let clients: BTreeSet<IpAddr> = rows.iter().flat_map(|row| row.clients.clone()).collect();
    assert_eq!(clients, CLIENTS.map(IpAddr::from).into());
    let shown = metrics::render(
        &status::current(&world.dir).unwrap(),
        counters(&world),
        None,
    )
    .unwrap();
    assert_eq!(metric(&shown, "epguard_denied_packets_total"), ALL);
    assert_eq!(metric(&shown, "epguard_denied_openings_total"), ALL);
    // A minute after the first report the count includes all packets.
    let has_all = |event: &Value| event["series"]["count"] == ALL;
    until(&world, "told", |world| {
        events(world).iter().filter(|event| has_all(event)).count() == 2
    });
    let note = "Service shop/web still sends to endpoint 10.244.1.10 for pod shop/a, which has ended; pod team-b/b \
                has that IP now (reused). On node n the packets are dropped. Why: epguard why 10.244.1.10 --service shop/web";
    let expected = |kind: &str, namespace: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{name}.*"), "namespace": namespace},
            "action": "DenyPackets", "reason": "StaleEndpointDenied", "type": "Warning", "note": note,
            "eventTime": "*", "series": {"count": ALL, "lastObservedTime": "*"},
            "regarding": {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name, "uid": "*"},
            "reportingController": "epguard", "reportingInstance": "n",
        })
    };
    let seen: Vec<Value> = events(&world)
        .into_iter()
        .map(|event| masked(&world, event))
        .collect();
    assert_eq!(
        seen,
        [
            expected("Service", "shop", "web"),
            expected("Pod", "team-b", "b")
        ]
    );
    until(&world, "logged", |world| {
        logged(world).iter().sum::<u64>() == ALL
    });
    // Two proofs (dead-backend until the pod of team-b is known, then reused), each at most once in
    // ten seconds.
    assert!(logged(&world).len() <= 20, "{:?}", logged(&world));
}

/// Sends one SYN: the socket is closed before the kernel repeats it.
fn open(client: Ipv4Addr) {
    let family = AddressFamily::Inet;
    let opened = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK, None).unwrap();
    bind(
        opened.as_raw_fd(),
        &SockaddrIn::from(SocketAddrV4::new(client, 0)),
    )
    .unwrap();
    let service = SockaddrIn::new(10, 96, 0, 1, 80);
    assert_eq!(
        connect(opened.as_raw_fd(), &service),
        Err(nix::errno::Errno::EINPROGRESS)
    );
}

fn counters(world: &World) -> maps::Counters {
    maps::counters(&world.dir.join("bpf/epguard")).unwrap()
}

/// Counters of dropped packets, for all reasons.
fn kernel(world: &World) -> Count {
    let counters = counters(world);
    Reason::ALL
        .map(|reason| counters[&(reason, Outcome::Dropped)])
        .into_iter()
        .fold(Count::default(), Count::plus)
}

fn drops(world: &World) -> Vec<Dropped> {
    status::ask(&world.dir, &Request::Drops)
        .unwrap()
        .drops
        .unwrap()
}

/// The sum over all labels.
fn metric(text: &str, name: &str) -> u64 {
    let samples = text.lines().filter(|line| line.starts_with(name));
    samples
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// The counts in the log lines about denied packets.
fn logged(world: &World) -> Vec<u64> {
    let log = world.log();
    let counts = log.lines().filter_map(|line| line.split_once(" packets="));
    counts
        .map(|(_, rest)| rest.split(' ').next().unwrap().parse().unwrap())
        .collect()
}

/// An agent under its role, without these rights, on a node with a denial.
fn denying(name: &str, forbidden: &[&str]) -> World {
    let mut world = World::new(name);
    bind_without(&world, forbidden);
    // Before the agent starts: it denies nothing in a Namespace that it has not seen.
    world.store.ensure_namespace("team-b").unwrap();
    start(&mut world, &[]);
    world.deny();
    world
}

/// Each watch is checked for freshness every three seconds.
fn start(world: &mut World, options: &[&str]) {
    let short = ["--max-view-age", "10", "--lease", "10"];
    world.start(&[&short[..], options].concat());
}

/// A pod of the Namespace `team-b` gets the IP.
fn reuse(world: &mut World) {
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b", "namespace": "team-b"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.244.1.10"}]},
    });
    world.store.apply(pod).unwrap();
    world.until("reused", |status| {
        status.pods.values().any(|name| name == "team-b/b")
    });
}

/// Sends SYNs to the Service, from a process on the node.
fn call(world: &World, times: usize) {
    let service: SocketAddr = "10.96.0.1:80".parse().unwrap();
    let answered = world.netns.run(|| {
        (0..times)
            .flat_map(|_| TcpStream::connect_timeout(&service, Duration::from_millis(1)))
            .count()
    });
    assert_eq!(answered.unwrap(), 0);
}

/// In the order of their Namespaces.
fn events(world: &World) -> Vec<Value> {
    world.store.list(Kind::Event)
}

/// The Event without fields that differ from run to run. Asserts that the UID is that of the
/// object.
fn masked(world: &World, mut event: Value) -> Value {
    let metadata = event["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| field == "name" || field == "namespace");
    let name = metadata["name"]
        .as_str()
        .unwrap()
        .split('.')
        .next()
        .unwrap();
    metadata["name"] = format!("{name}.*").into();
    let kind: Kind = event["regarding"]["kind"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let objects = world.store.list(kind);
    let object = objects
        .iter()
        .find(|object| object["metadata"]["uid"] == event["regarding"]["uid"])
        .expect("the UID of an object");
    assert_eq!(object["metadata"]["name"], event["regarding"]["name"]);
    event["regarding"]["uid"] = "*".into();
    for time in ["/eventTime", "/series/lastObservedTime"] {
        let time = event.pointer_mut(time).unwrap();
        assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
        *time = "*".into();
    }
    event
}

fn until(world: &World, description: &str, wanted: impl Fn(&World) -> bool) {
    let begun = Instant::now();
    while !wanted(world) {
        let seen = events(world);
        assert!(
            begun.elapsed() < Duration::from_secs(90),
            "not {description}: {seen:#?}\n{}",
            world.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
