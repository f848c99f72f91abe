//! What the traffic of a node loses while its interfaces are hooked: requests of a pod to another
//! one of the same node, one each 500 µs.

use super::{attach_empty, hook, load_all, make_interfaces};
use crate::programs::kernel;
use epguard_lab::figures::{Row, Table};
use epguard_lab::net::{NetNs, Topology, TopologyOptions};
use nix::net::if_::if_nametoindex;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 2);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 244, 1, 3), 7000);
/// Between two requests.
const EACH: Duration = Duration::from_micros(500);
/// An answer may come so late.
const PATIENCE: Duration = Duration::from_secs(1);

/// What happens to the interfaces of a node.
type Step = fn(&[(u32, String)]);

/// Lost requests, and the longest time without an answer, for each thing that a node does
/// meanwhile.
pub(super) fn table(rounds: usize) -> Table {
    let mut table = Table::new("Requests between two pods (2,000 a second) meanwhile");
    let steps: [(&str, Step); 3] = [
        ("nothing for 5 s", |_| sleep(Duration::from_secs(5))),
        (
            "an empty TC program, attached to both hooks of 254 interfaces",
            attach_empty,
        ),
        (
            "epguard: loaded, and attached to both hooks of 254 interfaces",
            |interfaces| {
                drop(hook(load_all(), interfaces));
            },
        ),
    ];
    for (name, step) in steps {
        let measured: Vec<[f64; 2]> = (0..rounds)
            .map(|_| super::alone(|| measure(step)))
            .collect();
        let [lost, gaps] = [0, 1].map(|at| {
            measured
                .iter()
                .map(|figures| figures[at])
                .collect::<Vec<_>>()
        });
        table
            .rows
            .push(Row::new(format!("lost: {name}"), "requests", lost));
        table
            .rows
            .push(Row::new(format!("longest gap: {name}"), "ms", gaps));
    }
    table
}

/// Of requests that were sent during the step: how many were lost, and the longest time between two
/// answers in milliseconds.
fn measure(step: Step) -> [f64; 2] {
    let mut lab = Topology::new(TopologyOptions::default()).unwrap();
    for (name, ip) in [("shop/client", CLIENT), ("shop/server", *SERVER.ip())] {
        lab.add_pod("node-a", name, &[ip.into()]).unwrap();
    }
    let node = lab.netns("node-a").unwrap().clone();
    node.enter().unwrap();
    kernel::fresh_bpffs();
    let pods =
        ["shop/client", "shop/server"].map(|name| lab.pod(name).unwrap().host_ifname.clone());
    let mut interfaces = make_interfaces(&node);
    interfaces.extend(
        pods.into_iter()
            .map(|name| (if_nametoindex(&*name).unwrap(), name)),
    );
    let traffic = Traffic::start(
        lab.netns("shop/client").unwrap(),
        lab.netns("shop/server").unwrap(),
    );
    sleep(Duration::from_millis(200));
    step(&interfaces);
    traffic.end()
}

/// Requests with numbers from 0 on.
struct Traffic {
    ends: Arc<AtomicBool>,
    answers: Arc<Mutex<Vec<Instant>>>,
    client: thread::JoinHandle<u32>,
}

impl Traffic {
    fn start(client: &NetNs, server: &NetNs) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let answers = Arc::new(Mutex::new(Vec::new()));
        let bound = server.run(|| UdpSocket::bind(SERVER)).unwrap().unwrap();
        thread::spawn(move || echo(&bound));
        let socket = client
            .run(|| UdpSocket::bind((CLIENT, 0)))
            .unwrap()
            .unwrap();
        socket.connect(SERVER).unwrap();
        let received = socket.try_clone().unwrap();
        received.set_read_timeout(Some(PATIENCE)).unwrap();
        let noted = answers.clone();
        thread::spawn(move || {
            let mut number = [0; 4];
            while received.recv(&mut number).is_ok() {
                noted.lock().unwrap().push(Instant::now());
            }
        });
        let is_over = ends.clone();
        let client = thread::spawn(move || {
            let mut next = Instant::now();
            let mut sent = 0_u32;
            while !is_over.load(Relaxed) {
                let _ = socket.send(&sent.to_ne_bytes());
                sent += 1;
                next += EACH;
                sleep(next.saturating_duration_since(Instant::now()));
            }
            sent
        });
        Self {
            ends,
            answers,
            client,
        }
    }

    fn end(self) -> [f64; 2] {
        self.ends.store(true, Relaxed);
        let sent = self.client.join().unwrap();
        sleep(PATIENCE);
        let answers = self.answers.lock().unwrap();
        let lost = sent - u32::try_from(answers.len()).unwrap();
        let gaps = answers
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3);
        [f64::from(lost), gaps.fold(0.0, f64::max)]
    }
}

/// Answers until nothing has come for long.
fn echo(socket: &UdpSocket) {
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut number = [0; 4];
    while let Ok((_, from)) = socket.recv_from(&mut number) {
        let _ = socket.send_to(&number, from);
    }
}
