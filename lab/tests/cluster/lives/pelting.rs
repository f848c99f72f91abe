//! A sender of numbered datagrams, without pauses.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::stage::{ip, netns, vip};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::stage::Stage;
use epguard_lab::wait::Repeated;

/// The port of receivers.
const PORT: u16 = 9000;

/// A running sender; it ends when it is dropped.
pub(crate) struct Pelting {
    sent: Arc<AtomicU64>,
    thread: Repeated,
}

impl Pelting {
    /// Sends a datagram from the pod `client` to a Service every `pause`.
    pub(crate) fn of_client(stage: &Stage, service: &str, pause: Duration) -> Self {
        Self::start(netns(stage, "client"), vip(stage, service), pause)
    }

    /// Sends a datagram from the pod `far` to a receiver's address every `pause`.
    pub(crate) fn from_far(stage: &Stage, to: IpAddr, pause: Duration) -> Self {
        Self::start(netns(stage, "far"), SocketAddr::new(to, PORT), pause)
    }

    /// Sends a datagram with its number every `pause`.
    fn start(netns: &NetNs, to: SocketAddr, pause: Duration) -> Self {
        let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
        let socket = netns.run(|| UdpSocket::bind(any)).unwrap().unwrap();
        let (sent, mut next) = (Arc::new(AtomicU64::new(0)), Instant::now());
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
        Self { sent, thread: Repeated::start(|| turn) }
    }

    /// Number of datagrams sent so far, which is the next number.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Ends the sender; returns how many it sent.
    pub(crate) fn stop(self) -> u64 {
        drop(self.thread);
        self.sent.load(Ordering::SeqCst)
    }
}

/// Receives numbered datagrams: the numbers that arrived, in ascending order. Datagrams that waited for a neighbour entry
/// may be overtaken.
pub(crate) struct Catching {
    numbers: Arc<std::sync::Mutex<Vec<u64>>>,
    socket: Arc<UdpSocket>,
}

impl Catching {
    /// Listens in a pod of the story.
    pub(crate) fn in_pod(stage: &Stage, pod: &str) -> Self {
        Self::start(netns(stage, pod), ip(stage, pod))
    }

    /// Listens at an address, on a port of its own.
    pub(crate) fn start(netns: &NetNs, at: IpAddr) -> Self {
        let socket = Arc::new(netns.run(|| UdpSocket::bind((at, PORT))).unwrap().unwrap());
        socket2::SockRef::from(&*socket).set_recv_buffer_size(1 << 23).unwrap();
        let numbers = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (listening, caught) = (Arc::clone(&socket), Arc::clone(&numbers));
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

    /// Waits until `enough` returns true for the numbers that arrived, for some seconds at most; returns the numbers.
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
