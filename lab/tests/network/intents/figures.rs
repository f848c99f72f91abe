//! The aims of datagrams and connections, and what became of them.

use nix::libc;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::world::World;
use anyhow::Result;
use epguard_common::Mode;
use epguard_lab::wait;

/// The aim of a packet; as a number it is the first octet of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Service S, which may not send to pod X any more.
    Denied,
    /// Service T, which may.
    Other,
    /// Pod X itself.
    Direct,
}

pub(crate) use Aim::{Denied, Direct, Other};

pub(crate) const AIMS: [Aim; 3] = [Denied, Other, Direct];

/// Figures of one case.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Datagrams sent, by [`Aim`].
    pub(crate) aimed: [u64; 3],
    /// Datagrams received by pod X, by [`Aim`].
    pub(crate) arrived: [u64; 3],
    /// Packets that were, or would have been, denied.
    pub(crate) denied: u64,
    /// Packets to pod X that passed, as they were aimed at no Service with a denial.
    pub(crate) no_intent: u64,
    /// Packets to pod X that passed, as conntrack has no entry for them.
    pub(crate) no_connection: u64,
    /// Packets to pod X that passed, as they were aimed at the other Service.
    pub(crate) not_denied: u64,
}

impl Figures {
    /// What has come since earlier figures.
    pub(crate) fn since(self, before: &Self) -> Self {
        Self {
            aimed: self.aimed,
            arrived: std::array::from_fn(|aim| self.arrived[aim] - before.arrived[aim]),
            denied: self.denied - before.denied,
            no_intent: self.no_intent - before.no_intent,
            no_connection: self.no_connection - before.no_connection,
            not_denied: self.not_denied - before.not_denied,
        }
    }

    /// Asserts that exactly the packets aimed at the denied Service were denied, and that each
    /// packet was counted once. In IPv6 neighbour solicitations pass, too.
    #[track_caller]
    pub(crate) fn all_right(&self, ipv6: bool) {
        let [denied, other, direct] = self.aimed;
        assert_eq!(self.denied, denied, "{self}");
        assert_eq!(self.not_denied, other, "{self}");
        assert_eq!(self.no_intent, direct, "{self}");
        assert!(ipv6 || self.no_connection == 0, "{self}");
        assert_eq!(self.arrived[1..], self.aimed[1..], "lost: {self}");
        assert!(self.arrived[0] + self.denied >= denied, "lost: {self}");
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let aimed = self.aimed;
        let arrived = self.arrived;
        let Self {
            denied,
            no_intent,
            no_connection,
            not_denied,
            ..
        } = self;
        write!(
            f,
            "aimed {aimed:?} arrived {arrived:?} denied {denied} no-intent {no_intent} no-connection {no_connection} not-denied {not_denied}"
        )
    }
}

/// Runs a case in both modes and returns the figures of each.
pub(crate) fn in_both_modes(
    world: &mut World,
    case: &str,
    mut shoot: impl FnMut(&mut World) -> [u64; 3],
) -> [Figures; 2] {
    [Mode::Observe, Mode::Enforce].map(|mode| in_mode(world, case, mode, &mut shoot))
}

/// Runs a case in both modes, in which each packet has to be judged by its own aim.
#[track_caller]
pub(crate) fn judged_right(
    world: &mut World,
    case: &str,
    shoot: impl FnMut(&mut World) -> [u64; 3],
) {
    for figures in in_both_modes(world, case, shoot) {
        figures.all_right(world.ipv6);
    }
}

/// How often each aim occurs.
pub(crate) fn counted(aims: &[Aim]) -> [u64; 3] {
    AIMS.map(|aim| aims.iter().filter(|other| **other == aim).count() as u64)
}

/// Runs a case in one mode.
pub(crate) fn in_mode(
    world: &mut World,
    case: &str,
    mode: Mode,
    shoot: impl FnOnce(&mut World) -> [u64; 3],
) -> Figures {
    world.hooks.set_mode(mode).unwrap();
    let before = world.figures();
    let aimed = shoot(world);
    let figures = settled(world, &before, aimed, mode)
        .unwrap_or_else(|lost| panic!("{case} {mode:?}: {lost}"));
    println!(
        "{case} IPv{} {mode:?}: {figures}",
        if world.ipv6 { 6 } else { 4 }
    );
    if mode != Mode::Enforce {
        assert_eq!(
            figures.arrived, figures.aimed,
            "observing stopped something: {figures}"
        );
    }
    figures
}

/// The figures once every datagram is accounted for.
fn settled(world: &World, before: &Figures, aimed: [u64; 3], mode: Mode) -> Result<Figures> {
    wait::value(Duration::ZERO, || {
        let figures = Figures {
            aimed,
            ..world.figures().since(before)
        };
        let stopped = if mode == Mode::Enforce {
            figures.denied
        } else {
            0
        };
        let is_settled =
            figures.arrived[1..] == aimed[1..] && figures.arrived[0] + stopped >= aimed[0];
        Ok(if is_settled {
            Ok(figures)
        } else {
            Err(format!("lost: {figures}"))
        })
    })
}

/// Sends a datagram to each aim from one unconnected socket.
pub(crate) fn send_all(world: &World, socket: &UdpSocket, aims: &[Aim]) -> [u64; 3] {
    send_each(world, socket, aims, |aim| world.address(aim))
}

/// The same, to an aim's address as this kind of client has it.
pub(crate) fn send_each(
    world: &World,
    socket: &UdpSocket,
    aims: &[Aim],
    address: impl Fn(Aim) -> SocketAddr,
) -> [u64; 3] {
    let mut aimed = [0; 3];
    let start = world.sink.arrived();
    for aim in aims {
        send(|| socket.send_to(&[*aim as u8; 64], address(*aim)));
        aimed[*aim as usize] += 1;
        keep_pace(world, start, aimed);
    }
    aimed
}

/// Sends, and ignores the error by which a sender on the node itself sees a denial.
pub(crate) fn send(mut attempt: impl FnMut() -> std::io::Result<usize>) {
    match attempt() {
        Ok(_) => {}
        Err(error) => assert!(
            matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOBUFS)),
            "{error}"
        ),
    }
}

/// Waits while so many datagrams are on the way that the kernel might drop some.
fn keep_pace(world: &World, start: [u64; 3], aimed: [u64; 3]) {
    let deadline = Instant::now() + Duration::from_millis(200);
    let under_way = || {
        let arrived = world.sink.arrived();
        (1..3)
            .map(|aim| aimed[aim].saturating_sub(arrived[aim] - start[aim]))
            .sum::<u64>()
    };
    while aimed[1] + aimed[2] > 200 && under_way() > 100 && Instant::now() < deadline {
        std::thread::yield_now();
    }
}

/// `count` aims in a fixed, irregular order in which every pair of neighbours occurs.
pub(crate) fn interleaved(count: usize) -> Vec<Aim> {
    let mut state = 0x2545_f491_u32;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            AIMS[(state % 3) as usize]
        })
        .collect()
}
