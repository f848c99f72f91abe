//! Arguments that several commands share.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use epguard_common::{OneOf, Reason};
use epguard_core::facts::ObjectName;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The API server, and who asks it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ClusterArgs {
    /// Credentials for the API server [default: ~/.kube/config, else the pod's service account]
    #[arg(
        long,
        value_name = "PATH",
        env = "KUBECONFIG",
        global = true,
        hide_env_values = true
    )]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,
    /// Act as this user, or as system:serviceaccount:NAMESPACE:NAME
    #[arg(long = "as", value_name = "USER", global = true)]
    pub as_user: Option<String>,
    /// Act as a member of this group, repeatedly for more; needs --as
    #[arg(long = "as-group", value_name = "GROUP", global = true)]
    pub as_groups: Vec<String>,
    /// Longest wait for each answer, of the API server or of a node, 1 to 600
    #[arg(long, value_name = "SECONDS", global = true, value_parser = seconds(1..=600))]
    pub timeout: Option<Duration>,
}

/// Which Services are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ServiceArgs {
    /// Only Services of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// All namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only this Service
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: Option<String>,
}

impl ServiceArgs {
    /// Whether all Services are shown, and packets to the IPs themselves.
    pub const fn is_all(&self) -> bool {
        self.namespace.is_none() && self.service.is_none()
    }

    /// Whether a Service is shown; `-`, for packets to an IP itself, is in no namespace.
    pub fn wants(&self, service: &str) -> bool {
        let namespace = service.split_once('/').map(|(namespace, _)| namespace);
        self.namespace
            .as_deref()
            .is_none_or(|wanted| namespace == Some(wanted))
            && self.service.as_ref().is_none_or(|wanted| service == wanted)
    }

    /// The flags that were given, for another command.
    pub fn flags(&self) -> [(&'static str, Option<&str>); 2] {
        [
            ("--namespace", self.namespace.as_deref()),
            ("--service", self.service.as_deref()),
        ]
    }
}

/// A parser for a time in whole seconds.
pub fn seconds(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = Duration> {
    move |text: &str| match text.parse() {
        Ok(seconds) if range.contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => {
            let (least, most) = (range.start(), range.end());
            Err(format!("write whole seconds from {least} to {most}"))
        }
    }
}

/// A parser for one of a list, by its name; `--help` explains each.
pub fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let values = all.map(|value| PossibleValue::new(name(value)).help(help(value)));
    PossibleValuesParser::new(values).map(move |text| {
        let mut named = all.into_iter().filter(|value| name(*value) == text);
        named.next().unwrap_or(all[0])
    })
}

/// Reads `NAMESPACE/NAME`; none without both.
pub fn name(text: &str) -> Option<ObjectName> {
    ObjectName::parse(text)
}

/// A Service, `namespace/name`.
pub fn service(text: &str) -> Result<String, &'static str> {
    let named = name(text).map(|_| text.to_owned());
    named.ok_or("not a Service: NAMESPACE/NAME")
}

/// A Service, or nothing for all. Errors: it is not named in full.
pub fn service_or_all(text: &str) -> Result<String, &'static str> {
    if name(text).is_some() || text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err("not a Service: NAMESPACE/NAME, or nothing for all")
    }
}

/// The name of a Service as it is written into a command that people copy; none if a shell could
/// read it otherwise, as a node may write what it likes.
pub fn plain_service(text: &str) -> Option<&str> {
    let is_plain = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || "-./".contains(character)
    };
    if name(text).is_some() && text.chars().all(is_plain) && !text.starts_with('-') {
        Some(text)
    } else {
        None
    }
}

/// The words of a command line as these arguments.
#[cfg(any(test, feature = "testing"))]
pub fn parsed<A: Args>(words: &[&str]) -> Result<A, String> {
    let command = A::augment_args(clap::Command::new("epguard").no_binary_name(true));
    let matches = command
        .try_get_matches_from(words)
        .map_err(|error| error.to_string())?;
    A::from_arg_matches(&matches).map_err(|error| error.to_string())
}

/// Reads the name of a reason. Errors: the reasons that there are.
pub fn reason(text: &str) -> Result<Reason, String> {
    Reason::parse(text).ok_or_else(|| format!("not a reason: {}", OneOf(Reason::TO_DENY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_in_full_or_not_at_all() {
        assert!(service_or_all("").is_ok() && service_or_all("shop/web").is_ok());
        for text in ["web", "/web", "shop/"] {
            assert!(service_or_all(text).is_err(), "{text}");
        }
    }
}
