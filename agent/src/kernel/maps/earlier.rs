//! SOCKETS, as far as the agent writes it: sockets that connected before the hooks had a slot to note.

use super::{BPF_NOEXIST, Writer, absent};
use crate::node::sock_diag::Connected;
use crate::shared::clock::boot_ns;
use anyhow::{Context as _, Result};
use aya::maps::MapError;
use epguard_common::{Slot, SocketIntent, Vip};
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// Flag of a map update: only a key that is there.
const BPF_EXIST: u64 = 2;
const TCP: u8 = 6;

impl Writer {
    /// Since when sockets are followed without a pause, `CLOCK_BOOTTIME`; none while they are not.
    #[must_use]
    pub fn follows_since_ns(&self) -> Option<u64> {
        (!self.nobody_is_followed()).then_some(self.vouched.since_ns)
    }

    /// The addresses of affected Services with their slots, as installed in SERVICES.
    #[must_use]
    pub const fn services(&self) -> &BTreeMap<Vip, Slot> {
        &self.installed.services
    }

    /// Adds a socket without a slot: from now on the hooks keep its entry right, or remove it. An existing entry stays
    /// as it is. Errors: SOCKETS cannot be written.
    pub fn note_socket(&mut self, cookie: u64) -> Result<()> {
        let nothing = SocketIntent::connected(Slot::NONE, false, boot_ns());
        match self.sockets.insert(cookie, nothing, BPF_NOEXIST) {
            Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::AlreadyExists => Ok(()),
            written => written.context("cannot write SOCKETS"),
        }
    }

    /// Sets the Service that a noted socket is connected to. An entry that the hooks have removed since stays removed.
    /// One that they have written after `looked_ns`, when the first list began, stays as it is: the socket may have
    /// connected elsewhere. Errors: SOCKETS cannot be written.
    pub fn aim_socket(&mut self, socket: &Connected, slot: Slot, looked_ns: u64) -> Result<()> {
        let is_tcp = socket.peer.protocol == TCP;
        match self.sockets.get(&socket.cookie) {
            Ok(known) if known.peer(self.vouched.since_ns).slot == slot => return Ok(()),
            Ok(known) if known.connected.is_some() && known.made_ns >= looked_ns => return Ok(()),
            Ok(known) if !is_tcp && (known.connected.is_some() || known.handed != 0) => return Ok(()),
            Err(MapError::KeyNotFound) => return Ok(()),
            known => known.context("cannot read SOCKETS")?,
        };
        // Not fresh: packets that a UDP socket sent to other peers before may still wait to leave.
        let aimed = SocketIntent::connected(slot, is_tcp, boot_ns());
        absent(self.sockets.insert(socket.cookie, aimed, BPF_EXIST)).context("cannot write SOCKETS")
    }

    /// Removes a noted socket, unless the hooks have written its entry since. Errors: SOCKETS cannot be written.
    pub fn drop_socket(&mut self, cookie: u64) -> Result<()> {
        let written = |known: SocketIntent| known.connected.is_some() || known.handed != 0;
        if self.sockets.get(&cookie).is_ok_and(written) {
            return Ok(());
        }
        absent(self.sockets.remove(&cookie)).context("cannot write SOCKETS")
    }
}
