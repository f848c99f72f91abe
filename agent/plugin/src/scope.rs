//! The flags that verbs share: the cluster, the nodes, and how long to wait for them.

use clap::{Args, ValueEnum};
use epguard_client::shared::args::ClusterArgs;
use epguard_client::shared::output::Output;
use epguard_client::shared::screen::Screen;
use std::time::Duration;

/// Flags of every verb: the cluster, and the form of the output.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// The API server, and who asks it.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Form of the output
    #[arg(short, long, default_value = "table", global = true)]
    pub output: FleetOutput,
}

/// Flags of the verbs that ask agents: which of them.
#[derive(Debug, Clone, Args)]
pub struct NodesArgs {
    /// The namespace of the agents
    #[arg(long, value_name = "NAMESPACE", default_value = "epguard")]
    pub agents_namespace: String,
    /// Only these nodes, with commas or repeatedly
    #[arg(
        long = "node",
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "selector"
    )]
    pub nodes: Vec<String>,
    /// Only nodes with these labels, as kubectl's --selector
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// How many nodes are asked at a time
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub parallel: u16,
}

/// The flags of a verb that asks agents.
#[derive(Debug, Args)]
pub struct OnNodes<A: Args> {
    /// Its own.
    #[command(flatten)]
    pub args: A,
    /// Which agents.
    #[command(flatten)]
    pub nodes: NodesArgs,
}

/// The flags that verbs of agents share.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The API server, and who asks it.
    pub cluster: ClusterArgs,
    /// Form of the output.
    pub output: FleetOutput,
    /// The namespace of the agents.
    pub agents_namespace: String,
    /// Only these nodes; none: all.
    pub nodes: Vec<String>,
    /// Only nodes with these labels.
    pub selector: Option<String>,
    /// How many nodes are asked at a time.
    pub parallel: u16,
}

/// Form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetOutput {
    /// For people
    Table,
    /// The same with more columns
    Wide,
    /// One JSON document: each node's own answer
    Json,
    /// The same as YAML
    Yaml,
}

impl FleetOutput {
    /// Whether it is text, and no document.
    pub const fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// The form of a document.
    pub const fn of_documents(self) -> Output {
        match self {
            Self::Table | Self::Wide => Output::Table,
            Self::Json => Output::Json,
            Self::Yaml => Output::Yaml,
        }
    }
}

impl Scope {
    /// Of the flags of every verb, and those of the verbs that ask agents.
    pub fn new(common: CommonArgs, nodes: NodesArgs) -> Self {
        Self {
            cluster: common.cluster,
            output: common.output,
            agents_namespace: nodes.agents_namespace,
            nodes: nodes.nodes,
            selector: nodes.selector,
            parallel: nodes.parallel,
        }
    }

    /// Longest wait for an answer that usually takes `default`.
    pub fn patience(&self, default: Duration) -> Duration {
        self.cluster.timeout.unwrap_or(default)
    }

    /// The terminal, and how much is shown on it.
    pub fn screen(&self) -> Screen {
        Screen::of_output(self.output == FleetOutput::Wide)
    }

    /// Whether the flags choose all nodes.
    pub fn is_whole(&self) -> bool {
        self.nodes.is_empty() && self.selector.is_none()
    }
}
