//! `/metrics` in `OpenMetrics` text over HTTP and, at an address of their own, `/healthz` and `/readyz`.
//!
//! Nothing is counted here twice: a metric is a figure of the [`Status`](crate::shared::status::Status), asked of the main loop,
//! or a number in the kernel's COUNTERS. Names of pods and Services are in the log and in the status.

mod server;
mod text;
mod timings;

pub use server::{Pages, bind, serve};
pub use text::render;
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
