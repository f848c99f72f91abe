//! `/metrics` in `OpenMetrics` text over HTTP and, at an address of their own, `/healthz` and `/readyz`.
//!
//! ```text
//! request -> server -> Status (asked of the main loop, as `epguard dump` does) + COUNTERS (read from the kernel) -> text
//! ```
//!
//! Nothing is counted here twice: a metric is a figure of the [`Status`](crate::shared::status::Status) or a number in the kernel.
//! Every label has a fixed, small set of values; names of pods and Services are in the log and in the status.

mod args;
mod family;
mod health;
mod server;
mod text;
mod timings;

pub use args::MetricsArgs;
pub use health::{Check, readiness};
pub use server::{Pages, bind, serve};
pub use text::render;
pub use timings::Timings;
