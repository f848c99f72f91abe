//! The answers, as tcpdump prints them.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::cluster::{calls, reject, service};
use super::world::{Plan, World, on_both_families};
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::Outcome;

/// tcpdump at a client's interface; it listens when this returns.
struct Capture {
    tcpdump: Child,
    file: std::path::PathBuf,
}

impl Capture {
    fn start(world: &World, host: &str) -> Self {
        let name = format!("epguard-wire-{}-{}.pcap", std::process::id(), world.netns(host).name());
        let file = std::env::temp_dir().join(name);
        let mut tcpdump = world.netns(host).command("tcpdump");
        tcpdump.args(["-U", "--immediate-mode", "-i", "eth0", "-w"]).arg(&file);
        let tcpdump = tcpdump.stderr(Stdio::null()).spawn().unwrap();
        let capture = Self { tcpdump, file };
        // The file's header is written once the socket is open.
        capture.until(|capture| std::fs::metadata(&capture.file).is_ok_and(|file| file.len() > 0));
        capture
    }

    fn until(&self, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !done(self) {
            assert!(Instant::now() < deadline, "tcpdump wrote too little");
            std::thread::yield_now();
        }
    }

    /// The verbose form of the packets that this filter lets through.
    fn show(&self, filter: &str) -> String {
        let mut tcpdump = std::process::Command::new("tcpdump");
        tcpdump.args(["-vv", "-n", "-r"]).arg(&self.file).arg(filter);
        String::from_utf8(tcpdump.output().unwrap().stdout).unwrap()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

/// With the client's offload off: else tcpdump would see checksums that are not complete yet.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn tcpdump_finds_nothing_wrong_with_an_answer() {
    const ANSWERS: &str =
        "tcp[tcpflags] & tcp-rst != 0 or (ip6 and tcp and ip6[53] & 4 != 0) or icmp[0] == 3 or icmp6[0] == 1";
    on_both_families(Plan::default(), |mut world| {
        world.shell("shop/client", "ethtool -K eth0 tx off >/dev/null");
        reject(&mut world);
        let capture = Capture::start(&world, "shop/client");
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let to = service(&world, "shop/client");
            let seen = calls(&world, "shop/client", protocol, to, 5, Duration::from_secs(2));
            assert_eq!(seen.outcomes, [Outcome::Refused]);
        }
        let complete = |capture: &Capture| {
            let shown = capture.show(ANSWERS);
            (shown.matches("Flags [R.]").count(), shown.matches("unreachable").count()) >= (5, 5)
        };
        capture.until(complete);
        let shown = capture.show(ANSWERS);
        println!("{shown}");
        for complaint in ["incorrect", "bad", "wrong", "trunc"] {
            assert!(!shown.contains(complaint), "{complaint}: {shown}");
        }
        assert_eq!(shown.matches("(correct)").count(), 5, "TCP: {shown}");
    });
}
