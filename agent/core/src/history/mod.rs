//! Past pods and denials of each IP: one ring of views per IP, for `epguard why`.
//!
//! ```text
//! State (IPs that a fact touched, their views) -> History::note -> ring of steps -> Chronicle -> `epguard why`
//! ```

mod chronicle;
mod ring;

pub use chronicle::{Chronicle, Step};
pub use ring::{BUDGET, History, MAX_STEPS};
