//! Options about metrics and health.

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
