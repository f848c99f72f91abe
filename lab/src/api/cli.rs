//! `epguard-lab api`: the server on its own, to try things with `kubectl`.

use super::{ApiServer, Store};
use anyhow::{Context as _, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Serve an embedded Kubernetes API on loopback until interrupted.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where to write the kubeconfig.
    #[arg(long, default_value = "target/lab-kubeconfig")]
    kubeconfig: PathBuf,
    /// JSON files with objects, or with a List, to begin with.
    #[arg(long)]
    load: Vec<PathBuf>,
}

/// Runs the server.
pub async fn run(args: Args) -> Result<()> {
    let store = Store::new();
    for file in &args.load {
        let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let json: serde_json::Value =
            serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", file.display()))?;
        let objects = json["items"].as_array().cloned().unwrap_or_else(|| vec![json]);
        for object in objects {
            store
                .apply(object)
                .with_context(|| format!("cannot load {}", file.display()))?;
        }
    }
    let listener = std::net::TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let server = ApiServer::start(listener, store, Duration::from_mins(1))?;
    std::fs::write(&args.kubeconfig, server.kubeconfig())
        .with_context(|| format!("cannot write {}", args.kubeconfig.display()))?;
    println!("export KUBECONFIG={}", args.kubeconfig.display());
    tokio::signal::ctrl_c()
        .await
        .context("cannot wait for an interrupt")
}
