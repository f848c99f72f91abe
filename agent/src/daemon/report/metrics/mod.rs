//! `/metrics` in `OpenMetrics` text over HTTP and, at an address of their own, `/healthz` and `/readyz`.
//!
//! ```text
//! request -> server -> Status (asked of the main loop, as `epguard dump` does) + COUNTERS (read from the kernel) -> text, a
//!            family for each row of the table
//! ```
//!
//! Nothing is counted here twice: a metric is a figure of the [`Status`](crate::shared::status::Status) or a number in the kernel.
//! Every label has a fixed, small set of values; names of pods and Services are in the log and in the status.

mod args;
mod health;
mod metric;
mod samples;
mod server;
mod table;
mod text;
mod timings;

pub use args::MetricsArgs;
pub use metric::{Kind, Metric};
pub use server::{Pages, bind, serve};
pub use table::METRICS;
pub use text::render;
pub use timings::Timings;
