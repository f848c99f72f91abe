//! Watches of the API: one task per watch, all of them into one channel.
//!
//! ```text
//! protocol (what to ask next) -> attempts (asks) -> stream, list (read) -> Message -> main loop
//!                                                   beside (freshness checks, narrow lists)
//! ```
//!
//! Watches are raw instead of kube-runtime's for two reasons. Bookmarks must be seen, because they
//! show up to where a stream is complete; and one object that doesn't parse must not end a stream.

mod attempts;
mod backoff;
mod beside;
mod changes;
mod collection;
mod failure;
mod freshness_check;
mod line;
mod lines;
mod list;
mod message;
mod node_lookup;
mod open;
mod orders;
mod protocol;
mod request_error;
mod session;
mod step;
mod stream;
#[cfg(test)]
mod tests;
mod watches;

pub use failure::Failure;
pub use list::{OneList, list_once};
pub use message::{Clock, Message, WatchEvent};
pub use watches::{Watches, start};
