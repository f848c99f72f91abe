//! `/metrics` in `OpenMetrics` text over HTTP and, at an address of their own, `/healthz` and `/readyz`.
//!
//! ```text
//! request -> server -> Status (asked of the main loop, as `epguard dump` does) + COUNTERS (read from the kernel) -> text, a
//!            family for each row of the table
//! ```
//!
//! Nothing is counted here twice: a metric is a figure of the [`Status`](crate::shared::status::Status) or a number in the kernel.
//! Every label has a fixed, small set of values; names of pods and Services are in the log and in the status.

mod health;
mod samples;
mod server;
mod table;
mod text;
mod timings;

pub use server::{Pages, bind, serve};
pub use table::METRICS;
pub use text::{Metric, render};
pub use timings::Timings;

use clap::Args;
use std::net::SocketAddr;

/// Where metrics and health are served.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Where to serve /metrics over HTTP, without authentication; the metrics name no objects
    #[arg(long = "metrics-listen", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9467")]
    pub listen: SocketAddr,
    /// Where to serve /healthz and /readyz over HTTP, for the kubelet: keep it on loopback
    #[arg(long = "health-listen", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9468")]
    pub health: SocketAddr,
}
