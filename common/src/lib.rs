//! Map layouts, packet parsing, verdicts and decisions, shared by the kernel programs and the agent.
//!
//! All decisions about packets are here, as pure functions, so that they are tested without a kernel.
#![no_std]

mod abi;
mod action;
mod addr;
pub mod capacity;
mod carrier;
mod claim;
mod config;
mod count;
mod decision;
mod denial;
mod direct;
mod egress;
mod event;
mod flow;
mod ingress;
mod judge;
mod keyed;
mod node;
mod packet;
mod per_reason;
mod redirect;
mod reject;
mod socket;
mod uid;
#[cfg(feature = "user")]
mod user;
mod verdict;

pub use abi::{ABI_VERSION, Affected, DenialKey, Owner, Slot, SocketIntent, Suspect, Vip};
pub use action::{Action, AnswerLimits, ReasonActions};
pub use addr::Addr;
pub use carrier::{Aimed, CARRIER_ALL, CARRIER_HIGH, JUDGED, Sender};
pub use claim::claimed;
pub use config::{Config, Mode, RawConfig, ReasonModes, View};
pub use count::{Count, DenialCount, counter};
pub use decision::{ActionModel, Decision, can_answer, decide};
pub use denial::{Denial, RawDenial, UidState};
pub use direct::{DirectModel, Way, judge_direct};
pub use egress::{EgressModel, decide_egress};
pub use event::Event;
pub use flow::{ALL_CLIENTS, Direct, Flow, Redirected, Return, has_room};
pub use ingress::{Entering, Force, IngressModel, Marking, decide_ingress};
pub use judge::{Intent, Model, Proof, judge};
pub use keyed::Keyed;
pub use node::{Mac, Rate, Role, Sighting, Terminated};
pub use packet::{Bytes, MAX_EXTENSIONS, Packet, Transport, is_vlan_tag, parse};
pub use per_reason::PerReason;
pub use redirect::{Backend, Backends, MAX_BACKENDS, is_redirectable};
pub use reject::{Bucket, MAX_QUOTE, Rewrite, Sum, answer, is_answerable, options_length, reset};
pub use socket::{Moment, PENDING_NS, SEND_WINDOW_NS};
pub use uid::Uid;
pub use verdict::{Outcome, Reason, Verdict};
