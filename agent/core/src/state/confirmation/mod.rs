//! Mass denials are pending until a second list agrees.

pub(in crate::state) mod breaker;
pub(in crate::state) mod needs;
pub(in crate::state) mod opinions;
pub(in crate::state) mod pending;
pub(in crate::state) mod room;

pub use breaker::{Breaker, Trip};
pub use opinions::{DELAY, Opinion, SPREAD, spread};
pub(in crate::state) use opinions::Opinions;
pub use pending::Why;
