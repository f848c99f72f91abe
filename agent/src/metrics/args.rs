//! Options about metrics.

use clap::Args;
use std::net::SocketAddr;

/// Where metrics are served.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Where to serve /metrics, /healthz and /readyz over HTTP, for whoever can connect; names no object
    #[arg(
        long = "metrics-listen",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9467"
    )]
    pub listen: SocketAddr,
}
