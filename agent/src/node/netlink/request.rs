//! Requests over netlink and their complete answers: the only place that sends a request and reads what comes back.
//!
//! Each attempt has a socket of its own in the caller's network namespace, so that no answer can be another request's.
//! A dump that changes spoil is read again: an incomplete one would show existing entries as absent.

use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;
use rtnetlink::packet_core::{
    Emitable as _, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
    NetlinkHeader,
};
use rtnetlink::sys::{Socket, SocketAddr};
use std::io;

/// An answer, with its header.
pub type Message<'a> = NetlinkBuffer<&'a [u8]>;

/// Most attempts at a dump. A change during a dump spoils it, but that does not happen so many times in a row.
pub const ATTEMPTS: u32 = 10;

/// Longest wait for an answer. The kernel continues a dump at once, or never.
const PATIENCE: TimeVal = TimeVal::new(10, 0);

/// The kernel sends at most 32 KiB at a time, into a buffer of any size.
const BUFFER: usize = 1 << 16;

/// A request to the kernel.
#[derive(Debug)]
pub struct Request {
    family: isize,
    /// A dump changes nothing, so it may be sent again.
    is_dump: bool,
    message: Vec<u8>,
}

impl Request {
    /// `family` is `NETLINK_*`, `body` all that follows the message's header. `flags` has `NLM_F_DUMP` for all entries of
    /// a table, otherwise `NLM_F_ACK`: by either, the end of the answers is known.
    #[must_use]
    pub fn new(family: isize, kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut header = NetlinkHeader::default();
        let mut message = vec![0; header.buffer_len()];
        header.length = u32::try_from(message.len() + body.len()).unwrap_or(u32::MAX);
        header.message_type = kind;
        header.flags = NLM_F_REQUEST | flags;
        header.emit(&mut message);
        message.extend_from_slice(body);
        let is_dump = flags & NLM_F_DUMP == NLM_F_DUMP;
        Self { family, is_dump, message }
    }

    /// Passes each answer to `take`, which begins anew with a default value when a dump is read again.
    ///
    /// Errors: the kernel's; a broken answer; changes spoil each of [`ATTEMPTS`] attempts.
    pub fn ask<T: Default>(&self, mut take: impl FnMut(&mut T, &Message<'_>)) -> io::Result<T> {
        let mut answers = Answers::default();
        while !answers.read_datagram(self, &mut take)? {}
        Ok(answers.taken)
    }

    /// The same, but other tasks run between any two parts of the answer. The kernel makes each part while it is
    /// read, so there is nothing to wait for.
    pub async fn ask_in_turn<T: Default>(&self, mut take: impl FnMut(&mut T, &Message<'_>)) -> io::Result<T> {
        let mut answers = Answers::default();
        while !answers.read_datagram(self, &mut take)? {
            tokio::task::yield_now().await;
        }
        Ok(answers.taken)
    }

    fn send(&self) -> io::Result<Socket> {
        let socket = Socket::new(self.family)?;
        setsockopt(&socket, ReceiveTimeout, &PATIENCE).map_err(io::Error::from)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&self.message, 0)?;
        Ok(socket)
    }
}

/// The answers of the present attempt.
#[derive(Default)]
struct Answers<T> {
    /// None before the request is sent.
    socket: Option<Socket>,
    /// The request may have changed something, so it is sent once.
    is_once: bool,
    taken: T,
    spoilt: bool,
    spoilt_before: u32,
}

impl<T: Default> Answers<T> {
    /// Reads the next datagram. True if the answers are complete.
    fn read_datagram(
        &mut self,
        request: &Request,
        take: impl FnMut(&mut T, &Message<'_>),
    ) -> io::Result<bool> {
        self.is_once = !request.is_dump;
        let socket = self.socket.take().map_or_else(|| request.send(), Ok)?;
        let mut buffer = Vec::with_capacity(BUFFER);
        // With this flag the length is that of the whole datagram, even if the buffer is shorter.
        let received = socket.recv(&mut buffer, libc::MSG_TRUNC);
        self.socket = Some(socket);
        let datagram = received.and_then(|length| buffer.get(..length).ok_or_else(broken));
        self.take(datagram, take)
    }

    /// Takes a datagram, or the error of receiving one. True if the answers are complete.
    fn take(
        &mut self,
        datagram: io::Result<&[u8]>,
        mut take: impl FnMut(&mut T, &Message<'_>),
    ) -> io::Result<bool> {
        let datagram = match datagram {
            // The socket had no room: an answer is lost.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && !self.is_once => {
                return self.again();
            }
            datagram => datagram?,
        };
        for message in messages(datagram) {
            let message = message?;
            self.spoilt |= message.flags() & NLM_F_DUMP_INTR != 0;
            match message.message_type() {
                NLMSG_DONE | NLMSG_ERROR => {
                    acknowledged(message.payload())?;
                    return if self.spoilt { self.again() } else { Ok(true) };
                }
                // Control messages.
                0..16 => {}
                _ => take(&mut self.taken, &message),
            }
        }
        Ok(false)
    }

    /// Begins the next attempt.
    fn again(&mut self) -> io::Result<bool> {
        let spoilt_before = self.spoilt_before + 1;
        *self = Self { spoilt_before, ..Self::default() };
        if spoilt_before == ATTEMPTS { Err(interrupted()) } else { Ok(false) }
    }
}

/// The error of a table that changes all the time.
#[must_use]
pub fn interrupted() -> io::Error {
    io::Error::other(format!("interrupted by changes {ATTEMPTS} times in a row"))
}

/// The messages of a datagram, up to the first broken one.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = io::Result<Message<'_>>> {
    std::iter::from_fn(move || {
        let message = Message::new_checked(datagram.first().map(|_| datagram)?).map_err(|_| broken());
        let length = message.as_ref().map_or(datagram.len(), |message| message.length() as usize);
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is broken off")
}

/// Reads the error number of an acknowledgement. Both the end of a dump and an error begin with an error number below
/// 0, or 0.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|number| i32::from_ne_bytes(*number)) {
        None | Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rtnetlink::packet_core::NLM_F_ACK;
    use rtnetlink::sys::protocols::NETLINK_ROUTE;

    /// One message.
    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut message = Request::new(0, kind, flags, body).message;
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn take(taken: &mut Vec<Vec<u8>>, message: &Message<'_>) {
        taken.push(message.payload().to_vec());
    }

    fn refused(errno: i32) -> io::Error {
        io::Error::from_raw_os_error(errno)
    }

    #[test]
    fn answers_of_several_datagrams_are_taken_up_to_the_end() {
        let mut answers = Answers::default();
        let first = [message(20, 0, &[1]), message(20, 0, &[2, 3])].concat();
        assert!(!answers.take(Ok(&first), take).unwrap());
        let last = [message(20, 0, &[4]), message(NLMSG_DONE, 0, &[0; 4])].concat();
        assert!(answers.take(Ok(&last), take).unwrap());
        assert_eq!(answers.taken, [vec![1], vec![2, 3], vec![4]]);
    }

    #[test]
    fn an_inconsistent_dump_is_read_again_at_most_10_times() {
        let mut answers = Answers::default();
        let spoilt = [message(20, NLM_F_DUMP_INTR, &[1]), message(NLMSG_DONE, 0, &[])].concat();
        for _ in 1..ATTEMPTS {
            assert!(!answers.take(Ok(&spoilt), take).unwrap());
            assert!(answers.taken.is_empty(), "nothing is taken from a spoilt dump");
        }
        let error = answers.take(Ok(&spoilt), take).unwrap_err();
        assert!(error.to_string().contains("10 times in a row"));
    }

    #[test]
    fn a_lost_answer_spoils_a_dump_and_other_errors_end_it() {
        let mut answers = Answers::default();
        assert!(!answers.take(Ok(&message(20, 0, &[1])), take).unwrap());
        assert!(!answers.take(Err(refused(libc::ENOBUFS)), take).unwrap());
        assert!(answers.taken.is_empty());
        let error = answers.take(Err(refused(libc::EAGAIN)), take).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    }

    #[test]
    fn a_refusal_is_an_error_and_an_empty_end_is_none() {
        let refused = acknowledged(&(-libc::EPERM).to_ne_bytes()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(acknowledged(&[0; 4]).is_ok() && acknowledged(&[]).is_ok());
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        let whole = [message(20, 0, &[1]), message(20, 0, &[2])].concat();
        for length in 1..whole.len() {
            let broken = messages(&whole[..length]).any(|message| message.is_err());
            assert_eq!(broken, !matches!(length, 17..=20 | 37..), "{length}");
        }
    }

    #[test]
    fn the_kernel_refuses_what_it_does_not_know() {
        let request = Request::new(NETLINK_ROUTE, u16::MAX, NLM_F_ACK, &[]);
        let error = request.ask(take).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>) {
            let _ = Answers::default().take(Ok(&octets), take).is_ok();
            let _ = acknowledged(&octets).is_ok();
        }
    }
}
