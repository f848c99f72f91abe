//! What the kernel programs and the agent share: map layouts, packet parsing, verdicts.
//!
//! Everything that decides is here, as pure functions, so that it is tested without a kernel.
#![no_std]

mod abi;
mod addr;
mod judge;
mod packet;
mod socket;
mod uid;
mod verdict;

pub use abi::{
    ABI_VERSION, Action, Config, Count, Counter, Denial, Event, Mode, Owner, ReasonModes, Slot, SocketIntent,
    Suspect, Target, UidState, View, Vip, capacity,
};
pub use addr::Addr;
pub use judge::{Model, Proof, judge};
pub use packet::{Bytes, MAX_EXTENSIONS, Packet, Transport, parse};
pub use socket::{Moment, PENDING_NS, SEND_WINDOW_NS};
pub use uid::Uid;
pub use verdict::{Outcome, Reason, Verdict};
