//! The flags of all verbs: the cluster, the nodes, and how long to wait for them.

use clap::{Args, ValueEnum};
use epguard_client::shared::args::ClusterArgs;
use epguard_client::shared::output::Output;
use epguard_client::shared::screen::Screen;
use std::time::Duration;

/// The cluster, and the nodes that are asked.
#[derive(Debug, Clone, Args)]
pub struct Scope {
    /// The API server, and who asks it.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The namespace of the agents
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "epguard",
        global = true
    )]
    pub agents_namespace: String,
    /// Only these nodes, with commas or repeatedly
    #[arg(
        long = "node",
        value_name = "NAME",
        value_delimiter = ',',
        global = true
    )]
    pub nodes: Vec<String>,
    /// Only nodes with these labels, as kubectl's --selector
    #[arg(short = 'l', long, value_name = "LABELS", global = true)]
    pub selector: Option<String>,
    /// How many nodes are asked at a time
    #[arg(long, value_name = "COUNT", default_value = "64", global = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub parallel: u16,
    /// Form of the output
    #[arg(short, long, default_value = "table", global = true)]
    pub output: FleetOutput,
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
