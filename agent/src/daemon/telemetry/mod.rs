//! Logging: its destination and its format.

mod recent;

pub use recent::recent;

use anyhow::{Context as _, anyhow};
use std::io::IsTerminal as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
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
    let writer = BoxMakeWriter::new(recent::stderr);
    let ansi = std::io::stderr().is_terminal();
    let logging = subscriber(format, filter, writer, ansi);
    logging.try_init().context("logging is set up already")
}

fn filter(directives: &str, datapath: bool) -> anyhow::Result<EnvFilter> {
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    let mut filter = builder.parse(directives).map_err(|e| {
        anyhow!("RUST_LOG={directives:?} is not a filter: {e}; write for example RUST_LOG=info,epguard=debug")
    })?;
    if !directives.contains("kube_client") {
        // The watches already report the client's errors, once and with the remedy.
        filter = filter.add_directive("kube_client=off".parse()?);
    }
    if datapath {
        filter = filter.add_directive("epguard_ebpf=trace".parse()?);
    }
    Ok(filter)
}

type Subscriber = Box<dyn tracing::Subscriber + Send + Sync>;

fn subscriber(
    format: LogFormat,
    filter: EnvFilter,
    writer: BoxMakeWriter,
    ansi: bool,
) -> Subscriber {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(ansi);
    match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    }
}

/// What a test logs.
#[cfg(test)]
pub(super) mod testing {
    use super::{LogFormat, filter, subscriber};
    use std::fs::{File, read_to_string};
    use tempfile::tempdir;
    use tracing::subscriber::NoSubscriber;
    use tracing_subscriber::fmt::writer::BoxMakeWriter;
    use tracing_subscriber::util::SubscriberInitExt as _;

    /// The log of this thread meanwhile, with these directives of `RUST_LOG`.
    pub fn logged(
        format: LogFormat,
        directives: &str,
        datapath: bool,
        records: impl FnOnce(),
    ) -> String {
        let folder = tempdir().unwrap();
        let path = folder.path().join("log");
        let writer = BoxMakeWriter::new(File::create(&path).unwrap());
        let filter = filter(directives, datapath).unwrap();
        // While a process has one subscriber, the thread that makes a record first decides for all
        // threads whether it is wanted. Another test's thread has no subscriber, and wants none.
        let _another = tracing::Dispatch::new(NoSubscriber::new());
        let guard = subscriber(format, filter, writer, false).set_default();
        records();
        drop(guard);
        read_to_string(path).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::logged;
    use super::*;

    #[test]
    fn json_lines_carry_level_message_and_fields() {
        let line = logged(LogFormat::Json, "", false, || {
            tracing::info!(pods = 3, "synced");
        });
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&object["level"], &object["message"], &object["pods"]),
            (&"INFO".into(), &"synced".into(), &3.into())
        );
    }

    #[test]
    fn records_of_the_datapath_below_info_appear_only_when_asked_for() {
        let record = || tracing::trace!(target: "epguard_ebpf", "packet");
        assert_eq!(logged(LogFormat::Text, "", false, record), "");
        let text = logged(LogFormat::Text, "", true, record);
        assert!(text.contains("packet"), "{text}");
    }

    #[test]
    fn a_bad_filter_names_the_variable_and_an_example() {
        let error = filter("epguard=loud", false).unwrap_err().to_string();
        assert!(
            error.contains("RUST_LOG=\"epguard=loud\"") && error.contains("RUST_LOG=info"),
            "{error}"
        );
    }
}
