//! Who had which IP, and what was denied there: one ring of views per IP, for `epguard why`.
//!
//! ```text
//! State (what a fact touched, what is known now) -> History::note -> ring of steps -> Chronicle -> `epguard why`
//! ```

mod chronicle;
mod ring;

pub use chronicle::{Chronicle, Step};
pub use ring::{BUDGET, History, MAX_STEPS};
