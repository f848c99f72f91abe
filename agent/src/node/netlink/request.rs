//! Requests over netlink and their complete answers: the only place that sends a request and reads
//! what comes back.
//!
//! Each attempt has a socket of its own in the caller's network namespace, so that no answer can be
//! another request's. A dump that changes spoil is read again: an incomplete one would show
//! existing entries as absent.

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;
use rtnetlink::packet_core::{
    Emitable as _, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer, NetlinkHeader,
};
use rtnetlink::sys::{Socket, SocketAddr};
use std::io;

/// An answer, with its header.
pub type AnswerMessage<'a> = NetlinkBuffer<&'a [u8]>;

/// Most attempts at a dump. A change during a dump spoils it, but that does not happen so many
/// times in a row.
pub const ATTEMPTS: u32 = 10;

/// Longest wait for an answer. The kernel continues a dump at once, or never.
const PATIENCE: TimeVal = TimeVal::new(10, 0);

/// The kernel sends at most 32 KiB at a time, into a buffer of any size.
const BUFFER: usize = 1 << 16;

/// A request to the kernel.
#[derive(Debug)]
pub struct NetlinkRequest {
    family: isize,
    /// A dump changes nothing, so it may be sent again.
    is_dump: bool,
    message: Vec<u8>,
}

impl NetlinkRequest {
    /// `family` is `NETLINK_*`, `body` all that follows the message's header. `flags` has
    /// `NLM_F_DUMP` for all entries of a table, otherwise `NLM_F_ACK`: by either, the end of the
    /// answers is known.
    pub fn new(family: isize, kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut header = NetlinkHeader::default();
        let mut message = vec![0; header.buffer_len()];
        header.length = u32::try_from(message.len() + body.len()).unwrap_or(u32::MAX);
        header.message_type = kind;
        header.flags = NLM_F_REQUEST | flags;
        header.emit(&mut message);
        message.extend_from_slice(body);
        let is_dump = flags & NLM_F_DUMP == NLM_F_DUMP;
        Self {
            family,
            is_dump,
            message,
        }
    }

    /// Passes each answer to `take`, which begins anew with a default value when a dump is read
    /// again. Blocks, mostly for less than a millisecond: the kernel makes each part of the answer
    /// while it is read.
    ///
    /// Errors: the kernel's; a broken answer; changes spoil each of [`ATTEMPTS`] attempts.
    pub fn ask<T: Default>(
        &self,
        mut take: impl FnMut(&mut T, &AnswerMessage<'_>),
    ) -> io::Result<T> {
        at_most_ten_times(|| {
            let socket = self.send()?;
            // With this flag the length is that of the whole datagram, even if the buffer is
            // shorter.
            attempt(
                self.is_dump,
                |buffer| socket.recv(buffer, libc::MSG_TRUNC),
                &mut take,
            )
        })
    }

    fn send(&self) -> io::Result<Socket> {
        let socket = Socket::new(self.family)?;
        setsockopt(&socket, ReceiveTimeout, &PATIENCE).map_err(io::Error::from)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&self.message, 0)?;
        Ok(socket)
    }
}

/// Repeats what changes spoilt.
fn at_most_ten_times<T>(mut attempt: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(taken) = attempt()? {
            return Ok(taken);
        }
    }
    Err(io::Error::other(format!(
        "interrupted by changes {ATTEMPTS} times in a row"
    )))
}

/// Takes the answers up to their end; none if changes spoilt them. Only a dump may be sent again.
fn attempt<T: Default>(
    is_dump: bool,
    mut receive: impl FnMut(&mut Vec<u8>) -> io::Result<usize>,
    take: &mut impl FnMut(&mut T, &AnswerMessage<'_>),
) -> io::Result<Option<T>> {
    let mut taken = T::default();
    let mut spoilt = false;
    loop {
        let mut buffer = Vec::with_capacity(BUFFER);
        let length = match receive(&mut buffer) {
            // The socket had no room: an answer is lost.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && is_dump => {
                return Ok(None);
            }
            length => length?,
        };
        for message in messages(buffer.get(..length).ok_or_else(broken)?) {
            let message = message?;
            spoilt |= message.flags() & NLM_F_DUMP_INTR != 0;
            match message.message_type() {
                NLMSG_DONE | NLMSG_ERROR => {
                    acknowledged(message.payload())?;
                    return Ok((!spoilt).then_some(taken));
                }
                // Control messages.
                0..16 => {}
                _ => take(&mut taken, &message),
            }
        }
    }
}

/// The messages of a datagram, up to the first broken one.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = io::Result<AnswerMessage<'_>>> {
    std::iter::from_fn(move || {
        let message =
            AnswerMessage::new_checked(datagram.first().map(|_| datagram)?).map_err(|_| broken());
        let length = message
            .as_ref()
            .map_or(datagram.len(), |message| message.length() as usize);
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
        Some(message)
    })
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is broken off")
}

/// Reads the error number of an acknowledgement. Both the end of a dump and an error begin with an
/// error number below 0, or 0.
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
        let mut message = NetlinkRequest::new(0, kind, flags, body).message;
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn take(taken: &mut Vec<Vec<u8>>, message: &AnswerMessage<'_>) {
        taken.push(message.payload().to_vec());
    }

    fn refused(errno: i32) -> io::Error {
        io::Error::from_raw_os_error(errno)
    }

    /// The answers to a dump, in these datagrams.
    fn dumped(
        datagrams: impl IntoIterator<Item = io::Result<Vec<u8>>>,
    ) -> io::Result<Option<Vec<Vec<u8>>>> {
        let mut datagrams = datagrams.into_iter();
        let receive = |buffer: &mut Vec<u8>| {
            buffer.extend(
                datagrams
                    .next()
                    .unwrap_or_else(|| Err(refused(libc::EAGAIN)))?,
            );
            Ok(buffer.len())
        };
        attempt(true, receive, &mut take)
    }

    #[test]
    fn answers_of_several_datagrams_are_taken_up_to_the_end() {
        let first = [message(20, 0, &[1]), message(20, 0, &[2, 3])].concat();
        let last = [message(20, 0, &[4]), message(NLMSG_DONE, 0, &[0; 4])].concat();
        assert_eq!(
            dumped([Ok(first), Ok(last)]).unwrap(),
            Some(vec![vec![1], vec![2, 3], vec![4]])
        );
    }

    #[test]
    fn an_inconsistent_dump_is_read_again_at_most_10_times() {
        let spoilt = [
            message(20, NLM_F_DUMP_INTR, &[1]),
            message(NLMSG_DONE, 0, &[]),
        ]
        .concat();
        let mut attempts = 0;
        let error = at_most_ten_times(|| {
            attempts += 1;
            dumped([Ok(spoilt.clone())])
        });
        assert!(error.unwrap_err().to_string().contains("10 times in a row"));
        assert_eq!(attempts, 10);
    }

    #[test]
    fn a_lost_answer_spoils_a_dump_and_other_errors_end_it() {
        let first = || Ok(message(20, 0, &[1]));
        assert_eq!(
            dumped([first(), Err(refused(libc::ENOBUFS))]).unwrap(),
            None
        );
        let error = dumped([first(), Err(refused(libc::EAGAIN))]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        let lost =
            attempt::<Vec<_>>(false, |_| Err(refused(libc::ENOBUFS)), &mut take).unwrap_err();
        assert_eq!(
            lost.raw_os_error(),
            Some(libc::ENOBUFS),
            "a change is made once"
        );
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
        let request = NetlinkRequest::new(NETLINK_ROUTE, u16::MAX, NLM_F_ACK, &[]);
        let error = request.ask(take).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>) {
            let _ = dumped([Ok(octets.clone())]).is_ok();
            let _ = acknowledged(&octets).is_ok();
        }
    }
}
