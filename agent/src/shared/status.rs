//! The status: the agent's state as one document, which its socket serves.

mod document;
mod figures;
pub(crate) mod lenient;
mod parts;
mod socket;
#[cfg(test)]
pub(crate) mod testing;

pub use document::{DocumentForm, Status};
pub use epguard_core::state::{PossibleHolder, UnprovenDeaths};
pub use figures::{ApiFigures, Distribution, Evicted, Figures, Fill, Latency, LatencyFigures};
pub use parts::{
    ActionInForce, ActionSource, Attachment, Cause, Conflict, Gap, ModeSource, Partial, Ranges,
    SocketLb, StoppedDenials, Translators, Unanswered, Watch,
};
pub use socket::{Question, Request, accepted, ask, current, serve};
