//! What the kernel programs and the agent share: map layouts, packet parsing, verdicts.
//!
//! Everything that decides is here, as pure functions, so that it is tested without a kernel.
#![no_std]

mod abi;
mod addr;
pub mod capacity;
mod claim;
mod config;
mod direct;
mod judge;
mod node;
mod packet;
mod socket;
mod uid;
mod verdict;

pub use abi::{
    ABI_VERSION, Count, Counter, Denial, Event, Owner, Slot, SocketIntent, Suspect, Target, UidState, Vip,
};
pub use addr::Addr;
pub use claim::claimed;
pub use config::{Action, Config, Mode, ReasonModes, View};
pub use direct::{DirectModel, Way, judge_direct};
pub use judge::{Intent, Model, Proof, judge};
pub use node::{Mac, Rate, Role, Terminated};
pub use packet::{Bytes, MAX_EXTENSIONS, Packet, Transport, is_vlan_tag, parse};
pub use socket::{Moment, PENDING_NS, SEND_WINDOW_NS};
pub use uid::Uid;
pub use verdict::{Outcome, Reason, Verdict};
