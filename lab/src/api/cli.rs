//! `epguard-lab api`: the server on its own, for kubectl and manual trials.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{ApiServer, Store, yaml};

/// Serves an API server until interrupted.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Address to listen on; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Where to write the kubeconfig; standard output without it.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// YAML or JSON files of any size, whose objects, lists too, exist from the start, status included.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub load: Vec<PathBuf>,
}

/// Runs the server until SIGINT.
pub async fn run(args: &Args) -> Result<()> {
    let store = Store::new();
    for file in &args.load {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        load(&store, &text).with_context(|| file.display().to_string())?;
    }
    let listener = std::net::TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}: choose another address with --listen", args.listen))?;
    let server = ApiServer::start(listener, store)?;
    match &args.kubeconfig {
        None => print!("{}", server.kubeconfig()),
        Some(file) => {
            fs::write(file, server.kubeconfig())
                .with_context(|| format!("cannot write {}", file.display()))?;
            println!("https://{} kubeconfig: {}", server.address(), file.display());
        }
    }
    tokio::signal::ctrl_c().await.context("cannot wait for SIGINT")
}

/// Creates the objects of a file. An error names the first one that is refused.
fn load(store: &Store, text: &str) -> Result<()> {
    for (number, object) in (1..).zip(yaml::objects(text).context("no YAML or JSON of objects")?) {
        store.apply(object).with_context(|| format!("object {number}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Kind, ObjectRef};

    #[test]
    fn every_object_of_a_file_is_loaded_and_a_bad_one_is_named() {
        let node = "kind: Node\nmetadata: {name: n}\n";
        let pod = "kind: Pod\nmetadata: {name: p, namespace: ns}\nstatus: {phase: Failed}\n";
        let store = Store::new();
        let error = load(&store, &format!("---\n{node}---\n{pod}---\n{{kind: Pod}}\n")).unwrap_err();
        assert_eq!(store.list(Kind::Node).len(), 1);
        assert_eq!(store.get(&ObjectRef::pod("ns", "p")).unwrap()["status"]["phase"], "Failed");
        assert_eq!(error.to_string(), "object 3");
    }
}
