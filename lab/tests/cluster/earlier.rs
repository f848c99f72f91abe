//! A process of the node opens a connection just before its endpoint is denied; its later packets must not reach a stranger.

use epguard_lab::net::NetNs;
use epguard_lab::scenario::format::{Condition, PodEvent, Runs};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::scenario::variant::Variant;
use socket2::{Domain, Socket, Type};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Open calls at each reuse.
const CALLS: usize = 8;

/// How often an IP of each family is reused; `REUSES` in the environment overrides it.
fn reuses() -> usize {
    std::env::var("REUSES").map_or(10, |count| count.parse().unwrap())
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn calls_from_before_the_denial_reach_no_other_pod() {
    let reuses = reuses();
    for family in families() {
        let mut stage = stage(reuses, family);
        let mut answered = Vec::new();
        for run in 0..reuses {
            answered.extend(hand_on(&mut stage, run));
        }
        println!(
            "{family}: {reuses} reuses, {} calls answered by the stranger",
            answered.len()
        );
        assert!(
            answered.is_empty(),
            "answered: {answered:?}\n{}",
            stage.agent.log()
        );
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_udp_socket_connected_before_the_denial_reaches_no_other_pod_after_one_denied_datagram() {
    for family in families() {
        let mut stage = stage(1, family);
        begin(&mut stage, 0);
        let to = vip(&stage, "old/a0");
        let socket = node(&stage).run(|| datagrams(to)).unwrap();
        let answer = || {
            let mut name = [0; 64];
            let length = socket.recv(&mut name).ok()?;
            Some(String::from_utf8_lossy(&name[..length]).trim().replace("7 ", ""))
        };
        socket.send(b"7\n").unwrap();
        wait_until("A0 answers", || answer().is_some_and(|name| name == "A0"));
        fall_silent(&stage, "A0");
        end(&mut stage, 0);
        // A socket that connected elsewhere must be recognised: UDP needs two checks, a second apart.
        let mut before = denied(&stage);
        wait_until("a datagram of the older socket is denied", || {
            let _ = socket.send(b"7\n");
            denied(&stage) > before
        });
        take_over(&mut stage, 0);
        before = denied(&stage);
        wait_until("ten more are", || {
            let _ = socket.send(b"7\n");
            assert_eq!(answer(), None, "{family}: {}", stage.agent.log());
            denied(&stage) >= before + 10
        });
        let direct = SocketAddr::new(stage.cluster.names.pod("B0").unwrap().ip, 8080);
        socket.connect(direct).unwrap();
        wait_until("the socket reaches the IP's new holder when it means it", || {
            socket.send(b"7\n").is_ok() && answer().is_some_and(|name| name == "B0")
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn an_older_connection_is_denied_and_one_to_a_live_endpoint_is_not() {
    let mut stage = stage(1, families().remove(0));
    begin(&mut stage, 0);
    let node = node(&stage).clone();
    let call = |to: SocketAddr| {
        let stream = node.run(|| TcpStream::connect_timeout(&to, Duration::from_mins(1)));
        stream.unwrap().unwrap()
    };
    let mut standing = call(vip(&stage, "old/a0"));
    let mut other = call(vip(&stage, "ok/api"));
    assert_eq!(ask(&mut standing).unwrap(), "A0");
    fall_silent(&stage, "A0");
    end(&mut stage, 0);
    take_over(&mut stage, 0);
    let before = denied(&stage);
    let _ = standing.write_all(b"7\n");
    wait_until("a packet of the old connection is denied", || {
        denied(&stage) > before
    });
    assert_eq!(ask(&mut other).unwrap(), "api");
    let direct = SocketAddr::new(stage.cluster.names.pod("B0").unwrap().ip, 8080);
    assert_eq!(
        ask(&mut call(direct)).unwrap(),
        "B0",
        "the IP's new holder is reached"
    );
}

/// IPv4, then IPv6.
fn families() -> Vec<Variant> {
    Variant::all(&Runs::default())
}

/// A UDP socket with this peer, with a short read timeout.
fn datagrams(to: SocketAddr) -> UdpSocket {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    socket
}

/// Each run has a Service, its pod, and the stranger that gets the pod's IP.
fn stage(runs: usize, family: Variant) -> Stage {
    let (mut pods, mut services) = (String::new(), String::new());
    for run in 0..runs {
        let _ = writeln!(
            pods,
            "  A{run}: {{is: old/a-{run}, ip: X{}, labels: {{app: a{run}}}}}",
            run % 50
        );
        let _ = writeln!(pods, "  B{run}: {{is: new/b-{run}, ip: X{}}}", run % 50);
        let _ = writeln!(
            services,
            "  old/a{run}: {{selector: {{app: a{run}}}, protocols: [tcp, udp]}}"
        );
    }
    let story = format!(
        "id: earlier\ntitle: t\nmust: m\nagent: {{mode: enforce}}\npods:\n{pods}  api: {{is: ok/api-1, labels: {{app: api}}}}\n\
         services:\n{services}  ok/api: {{selector: {{app: api}}}}\nsteps:\n  - proxy: sync\n"
    );
    let scenario = epguard_lab::scenario::parse(&story, "earlier").unwrap();
    let mut stage = Stage::new(&scenario, family, None).unwrap();
    serve(&mut stage, "api", "ok/api");
    stage
}

fn serve(stage: &mut Stage, pod: &str, service: &str) {
    stage.cluster.pod_event(pod, PodEvent::Starts).unwrap();
    let ready = [(pod.to_owned(), Condition::Ready)].into();
    stage.cluster.set_slice(service, &ready).unwrap();
    stage.cluster.sync_proxy().unwrap();
    stage.catch_up().unwrap();
}

fn begin(stage: &mut Stage, run: usize) {
    serve(stage, &format!("A{run}"), &format!("old/a{run}"));
}

/// The pod dies, and the agent sees it.
fn end(stage: &mut Stage, run: usize) {
    stage
        .cluster
        .pod_event(&format!("A{run}"), PodEvent::Fails)
        .unwrap();
    stage.catch_up().unwrap();
}

fn take_over(stage: &mut Stage, run: usize) {
    stage
        .cluster
        .pod_event(&format!("B{run}"), PodEvent::Starts)
        .unwrap();
    stage.catch_up().unwrap();
}

/// The addresses of the calls that the stranger answered.
fn hand_on(stage: &mut Stage, run: usize) -> Vec<SocketAddr> {
    begin(stage, run);
    let (a, b) = (format!("A{run}"), format!("B{run}"));
    fall_silent(stage, &a);
    let to = vip(stage, &format!("old/a{run}"));
    let calls: Vec<Socket> = (0..CALLS).map(|_| open(node(stage), to)).collect();
    end(stage, run);
    let before = denied(stage);
    take_over(stage, run);
    // Each call repeats its SYN after a second.
    let all = u64::try_from(CALLS).unwrap();
    wait_until("the stranger answers, or all calls have sent again", || {
        denied(stage) >= before + all || calls.iter().any(|call| call.peer_addr().is_ok())
    });
    let answered = calls.iter().filter(|call| call.peer_addr().is_ok());
    let answered = answered
        .filter_map(|call| call.local_addr().unwrap().as_socket())
        .collect();
    drop(calls);
    stage.cluster.pod_event(&b, PodEvent::SandboxDown).unwrap();
    stage.cluster.pod_event(&b, PodEvent::Gone).unwrap();
    stage.cluster.pod_event(&a, PodEvent::Gone).unwrap();
    stage.catch_up().unwrap();
    answered
}

/// Begins to connect, without waiting for the result.
fn open(node: &NetNs, to: SocketAddr) -> Socket {
    let socket = node.run(|| Socket::new(Domain::for_address(to), Type::STREAM, None));
    let socket = socket.unwrap().unwrap();
    socket.set_nonblocking(true).unwrap();
    let error = socket.connect(&to.into()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS));
    socket
}

fn ask(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.write_all(b"7\n")?;
    let mut name = [0; 64];
    let length = stream.read(&mut name)?;
    Ok(String::from_utf8_lossy(&name[..length]).trim().replace("7 ", ""))
}

/// Simulates the death of the pod's node: the pod answers no more, and closes nothing.
fn fall_silent(stage: &Stage, pod: &str) {
    let pod = &stage.cluster.topology.pod(pod).unwrap().netns;
    let chain =
        |hook| format!("add chain inet dead {hook} {{ type filter hook {hook} priority 0; policy drop; }}");
    let script = format!("add table inet dead; {}; {}", chain("input"), chain("output"));
    assert!(pod.command("nft").arg(script).status().unwrap().success());
}

fn denied(stage: &Stage) -> u64 {
    use epguard_common::{Outcome, Reason};
    let counters = stage.counters().unwrap();
    counters.of(Reason::DeadBackend, Outcome::Dropped) + counters.of(Reason::Reused, Outcome::Dropped)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(5));
    }
}

fn node(stage: &Stage) -> &NetNs {
    &stage.cluster.topology.node("node-a").unwrap().netns
}

fn vip(stage: &Stage, service: &str) -> SocketAddr {
    SocketAddr::new(stage.cluster.names.service(service).unwrap().vip, 80)
}
