//! The same for packets whose headers lie in pages, and for packets that the device is to cut: test
//! runs of programs have none. They come in through a veth.

use super::*;
use crate::packet_socket::{PAGED, Socket};
use nix::net::if_::if_nametoindex;
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

const BATCHES: u64 = 200;
const BATCH: usize = 32;

/// The address of the interface where the frames come in. No generated frame has it.
const OWN: [u8; 6] = [2, 11, 11, 11, 11, 11];

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn programs_and_oracle_agree_on_packets_that_lie_in_pages() {
    stay_on_this_processor();
    let mut trial = Trial::new();
    ip("link add out mtu 16000 type veth peer name in mtu 16000 address 02:0b:0b:0b:0b:0b");
    // In this order: the kernel drops what `out` sends for as long as it has yet to hear that the
    // other end is up.
    ip("link set in up");
    ip("link set out up");
    trial.rig.attach(BOTH, "in");
    let socket = Socket::open("out");
    let mut tables = Tables::empty();
    let mut uncut = 0;
    for batch in 0..BATCHES {
        tables.remove(&mut trial.rig);
        tables = Tables::random(&mut draw(1, batch, 3)).leased();
        tables.install(&mut trial.rig);
        tables.show_exit(&mut trial.rig, if_nametoindex("in").expect("an interface"));
        let random = &mut draw(1, batch, 4);
        tables.connect(random);
        trial.rig.set("TEST_ENTRY", tables.connection);
        let mut oracle = Oracle::new(&tables);
        oracle.come_in = true;
        let mut sent = Vec::new();
        while sent.len() < BATCH {
            let mut frame = Generator {
                random: &mut *random,
                tables: &tables,
            }
            .frame();
            frame.resize(PAGED + random.usize(..4_000), 0);
            // The kernel takes tags off before it runs the program.
            if !read(&frame).is_tagged && pass(&socket, &frame, random, &mut uncut) {
                oracle.stops(Program::Both, &frame);
                sent.push(frame);
            }
        }
        let end = Instant::now() + Duration::from_mins(1);
        let mut counts = trial.counts();
        while counts != oracle.counts && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            super::trial::add(&mut counts, &trial.counts());
        }
        assert_eq!(
            counts,
            oracle.counts,
            "batch {batch} of\n{}{tables:#?}",
            hex(&sent)
        );
        assert_eq!(
            trial.lifted(&tables),
            oracle.lifted,
            "batch {batch} of\n{}{tables:#?}",
            hex(&sent)
        );
    }
    println!("{uncut} packets were for the device to cut");
    assert!(uncut > 100, "{uncut}");
}

/// Sends the frame; false if that is not possible.
fn pass(socket: &Socket, frame: &[u8], random: &mut fastrand::Rng, uncut: &mut u32) -> bool {
    let mut outside = frame.to_vec();
    if frame[..6] == [0; 6] {
        outside[..6].copy_from_slice(&OWN);
    }
    let is_plain = frame[12..15] == [8, 0, 0x45]
        && matches!(frame[23], 6 | 17)
        && [frame[20] & 0x3f, frame[21]] == [0, 0];
    if !is_plain || random.bool() {
        socket.send(&outside, random.u16(14..120));
        return true;
    }
    let taken = socket.send_uncut(&outside, 34, frame[23] == 6);
    *uncut += u32::from(taken);
    taken
}

/// So that packets stay in their order.
fn stay_on_this_processor() {
    let mut only = CpuSet::new();
    only.set(sched_getcpu().expect("a processor"))
        .expect("a processor");
    sched_setaffinity(Pid::from_raw(0), &only).expect("the affinity");
}
