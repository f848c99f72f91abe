//! A sender of numbered datagrams, without pauses.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::stage::{ip, netns, vip};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::stage::Stage;
use epguard_lab::wait::{self, Repeated};

/// The port of receivers.
const PORT: u16 = 9000;

/// A running sender; it ends when it is dropped.
pub(crate) struct Pelting {
    sent: Arc<AtomicU64>,
    thread: Repeated,
}

impl Pelting {
    /// Sends a datagram from the pod `far` to a receiver's address every `pause`.
    pub(crate) fn from_far(stage: &Stage, to: IpAddr, pause: Duration) -> Self {
        Self::start(netns(stage, "far"), SocketAddr::new(to, PORT), pause)
    }

    /// Sends a datagram with its number every `pause`.
    fn start(netns: &NetNs, to: SocketAddr, pause: Duration) -> Self {
        let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }
            .parse()
            .unwrap();
        let socket = netns.run(|| UdpSocket::bind(any)).unwrap().unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        let mut next = Instant::now();
        let counted = Arc::clone(&sent);
        let turn = move || {
            let number = counted.load(Ordering::Relaxed);
            // Without a receiver, an ICMP error of an earlier datagram is reported by a later one.
            if socket.send_to(&number.to_be_bytes(), to).is_ok() {
                counted.store(number + 1, Ordering::SeqCst);
                next += pause;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        };
        Self {
            sent,
            thread: Repeated::start(|| turn),
        }
    }

    /// Ends the sender; returns how many it sent.
    pub(crate) fn stop(self) -> u64 {
        drop(self.thread);
        self.sent.load(Ordering::SeqCst)
    }
}

/// Receives numbered datagrams: the numbers that arrived, in ascending order. Datagrams that waited
/// for a neighbour entry may be overtaken.
pub(crate) struct Catching {
    numbers: Arc<std::sync::Mutex<Vec<u64>>>,
    socket: Arc<UdpSocket>,
}

impl Catching {
    /// Listens at an address, on a port of its own.
    pub(crate) fn start(netns: &NetNs, at: IpAddr) -> Self {
        let socket = Arc::new(netns.run(|| UdpSocket::bind((at, PORT))).unwrap().unwrap());
        socket2::SockRef::from(&*socket)
            .set_recv_buffer_size(1 << 23)
            .unwrap();
        let numbers = Arc::new(std::sync::Mutex::new(Vec::new()));
        let listening = Arc::clone(&socket);
        let caught = Arc::clone(&numbers);
        thread::spawn(move || {
            let mut datagram = [0; 8];
            while let Ok(8) = listening.recv(&mut datagram) {
                let number = u64::from_be_bytes(datagram);
                let mut caught = caught.lock().unwrap();
                let at = caught.partition_point(|&other| other <= number);
                caught.insert(at, number);
            }
        });
        Self { numbers, socket }
    }

    /// Waits until `enough` returns true for the numbers that arrived, for some seconds at most;
    /// returns the numbers.
    pub(crate) fn wait(&self, enough: impl Fn(&[u64]) -> bool) -> Vec<u64> {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let numbers = self.numbers.lock().unwrap().clone();
            if enough(&numbers) || Instant::now() > deadline {
                return numbers;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Catching {
    fn drop(&mut self) {
        let _ = socket2::SockRef::from(&*self.socket).shutdown(std::net::Shutdown::Both);
    }
}

/// Senders in the pod `client` to living pods, and one to `old/web`, whose packets are stale and
/// would reach pod B.
pub(crate) struct Traffic {
    begun: Instant,
    living: Vec<(Pelting, Catching)>,
    stale: Pelting,
    hit: Catching,
}

/// Datagrams sent to the living pods and to `old/web`, how many of these B got, and all in a
/// second.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) living: u64,
    pub(crate) stale: u64,
    pub(crate) got_through: u64,
    pub(crate) per_second: f64,
}

impl Traffic {
    /// Starts a sender for each living pod, to the Service that leads to it.
    pub(crate) fn start(stage: &Stage, living: &[(&str, &str)], pause: Duration) -> Self {
        let send = |service| Pelting::start(netns(stage, "client"), vip(stage, service), pause);
        let receive = |pod| Catching::start(netns(stage, pod), ip(stage, pod));
        let receivers: Vec<_> = living.iter().map(|(_, pod)| receive(pod)).collect();
        let hit = receive("B");
        let begun = Instant::now();
        let living = living
            .iter()
            .map(|(service, _)| send(service))
            .zip(receivers)
            .collect();
        Self {
            begun,
            living,
            stale: send("old/web"),
            hit,
        }
    }

    /// How many stale packets got through.
    pub(crate) fn got_through(&self) -> u64 {
        self.hit.wait(|_| true).len() as u64
    }

    /// Ends the traffic. Asserts that the living pods got everything, each at least one datagram.
    pub(crate) fn stop(self) -> Sent {
        let (senders, receivers): (Vec<_>, Vec<_>) = self.living.into_iter().unzip();
        let living = senders.into_iter().map(Pelting::stop).sum();
        let stale = self.stale.stop();
        let seconds = self.begun.elapsed().as_secs_f64();
        let lost = wait::until(Duration::from_millis(1), || {
            let arrived: Vec<usize> = receivers
                .iter()
                .map(|one| one.wait(|_| true).len())
                .collect();
            let is_all = arrived.iter().sum::<usize>() as u64 == living && !arrived.contains(&0);
            Ok((!is_all).then(|| format!("{arrived:?} of {living} arrived")))
        });
        lost.unwrap();
        let got_through = self.hit.wait(|_| true).len() as u64;
        #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
        let per_second = (living + stale) as f64 / seconds;
        Sent {
            living,
            stale,
            got_through,
            per_second,
        }
    }
}
