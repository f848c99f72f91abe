//! Logging: where it goes and how it looks.

use anyhow::{Context as _, anyhow};
use std::io::IsTerminal as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Sends `tracing` and `log` records (the datapath's come as the latter) to standard error.
///
/// `RUST_LOG` filters, default `info`; `datapath` shows all of the kernel programs' own records.
pub fn init(format: LogFormat, datapath: bool) -> anyhow::Result<()> {
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = filter(&directives, datapath)?;
    let logging = subscriber(format, filter, std::io::stderr, std::io::stderr().is_terminal());
    logging.try_init().context("logging is set up already")
}

fn filter(directives: &str, datapath: bool) -> anyhow::Result<EnvFilter> {
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    let filter = builder.parse(directives).map_err(|e| {
        anyhow!("RUST_LOG={directives:?} is not a filter: {e}; write for example RUST_LOG=info,epguard=debug")
    })?;
    Ok(if datapath {
        filter.add_directive(
            "epguard_ebpf=trace"
                .parse()
                .context("the datapath's log filter")?,
        )
    } else {
        filter
    })
}

fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    writer: W,
    ansi: bool,
) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(ansi);
    match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    }
}
