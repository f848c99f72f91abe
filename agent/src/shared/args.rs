//! Arguments that several commands and the daemon share.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use epguard_common::{Mode, Reason};
use epguard_core::facts::Name;
use std::path::PathBuf;

/// Where the datapath is pinned.
#[derive(Debug, Args)]
pub struct PinArgs {
    /// Directory in bpffs with the datapath's maps and links
    #[arg(long, value_name = "PATH", default_value = "/sys/fs/bpf/epguard")]
    pub pin_dir: PathBuf,
}

/// Where the agent can be asked.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Directory with the agent's status socket
    #[arg(long, value_name = "PATH", default_value = "/run/epguard")]
    pub run_dir: PathBuf,
}

/// A parser for the name of a mode.
pub fn mode() -> impl TypedValueParser<Value = Mode> {
    const MODES: [Mode; 3] = [Mode::Off, Mode::Observe, Mode::Enforce];
    PossibleValuesParser::new(MODES.map(Mode::as_str)).map(|text| {
        MODES
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .unwrap_or_default()
    })
}

/// Reads `NAMESPACE/NAME`; none without both.
#[must_use]
pub fn name(text: &str) -> Option<Name> {
    let fits = |part: &str| !part.is_empty() && !part.contains('/');
    text.split_once('/')
        .filter(|(namespace, name)| fits(namespace) && fits(name))
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}

/// A Service, `namespace/name`.
pub fn service(text: &str) -> Result<String, &'static str> {
    let named = name(text).map(|_| text.to_owned());
    named.ok_or("not a Service: NAMESPACE/NAME")
}

/// Reads the name of a reason.
pub fn reason(text: &str) -> Result<Reason, &'static str> {
    Reason::parse(text).ok_or("not a reason: dead-backend, reused, retired-backend or terminated")
}
