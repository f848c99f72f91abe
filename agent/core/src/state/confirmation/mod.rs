//! Mass denials are pending until a second list agrees.

mod breaker;
mod needs;
pub(in crate::state) mod opinions;
mod pending;
mod room;
mod taken;

pub use breaker::{Breaker, Trip};
pub(in crate::state) use opinions::Opinions;
pub use opinions::{DELAY, Opinion, SPREAD, spread};
pub use pending::Why;
