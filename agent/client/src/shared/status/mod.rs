//! The status: the agent's state as one document, which it serves at a socket.

mod document;
mod figures;
pub(crate) mod lenient;
mod parts;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use document::{DocumentForm, Status};
pub use epguard_core::state::{PossibleHolder, UnprovenDeaths};
pub use figures::{ApiFigures, Distribution, Evicted, Figures, Fill, Latency, LatencyFigures};
pub use parts::{
    ActionInForce, ActionSource, Attachment, Cause, Conflict, Gap, ModeSource, Partial, Ranges,
    SocketLb, StoppedDenials, Translators, Unanswered, Watch,
};
