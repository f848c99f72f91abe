//! Map layouts, packet parsing, verdicts and decisions, shared by the kernel programs and the
//! agent.
//!
//! All decisions about packets are here, as pure functions, so that they are tested without a
//! kernel.
#![no_std]
#![allow(
    clippy::inline_always,
    reason = "one function to the verifier: no stack frame of its own"
)]

mod abi;
mod action;
mod addr;
pub mod capacity;
pub mod cilium_layout;
mod config;
mod conntrack;
mod count;
mod counters;
mod decision;
mod denial;
mod egress;
mod event;
mod flow;
mod gate;
mod judge;
mod keyed;
mod mode;
mod node;
mod packet;
pub mod protocol;
mod reason;
mod redirect;
mod reject;
mod socket_lb;
mod table;
mod terminated;
#[cfg(test)]
mod testing;
mod uid;
#[cfg(feature = "user")]
mod user;
mod verdict;
mod way;

pub use abi::{ABI_VERSION, ANSWER, ANSWER_MAC, DenialKey, Owner, ServiceNumber, Suspect, Vip};
pub use action::{Action, DenialCount, Effect, Outcome, ReasonActions};
pub use addr::Addr;
pub use config::{Config, RawConfig, ReasonModes, View};
pub use conntrack::{Entry, Meant, Record, Reference, Tuple};
pub use count::Count;
pub use counters::{counted_outcome, counter};
pub use decision::{ActionModel, Decision, can_answer, decide};
pub use denial::{Denial, RawDenial, UidState};
pub use egress::{EgressModel, Judged, decide_egress};
pub use event::Event;
pub use flow::{ALL_CLIENTS, Flow, Redirected, Return, has_room};
pub use gate::{BUCKETS, Gate, Gates, Glance, Hash};
pub use judge::{Intent, Model, Proof, judge_packet, without_denial};
pub use keyed::Keyed;
pub use mode::Mode;
pub use node::{Mac, Rate, RawRole, Role, Terminated};
pub use packet::{Bytes, MAX_EXTENSIONS, Packet, Transport, is_vlan_tag, parse, parse_plain};
pub use reason::{PER_REASON, PerReason, Reason};
pub use redirect::{Backend, Backends, MAX_BACKENDS, is_redirectable};
pub use reject::{
    AnswerLimits, Bucket, MAX_QUOTE, Rewrite, Sum, answer, is_answerable, options_length, refuses,
    reset,
};
pub use socket_lb::{
    Call, CallDecision, CallModel, Connection, PENDING_NS, decide_call, packet_from, packet_of,
};
pub use table::OneOf;
pub use terminated::{TerminatedModel, judge_terminated};
pub use uid::Uid;
pub use verdict::Verdict;
pub use way::{Place, Way, may_enter, way_out};
