//! The calls that the pods of `kubectl epguard check` make, and what became of them: the command
//! line of `epguard check-pod call`, and the one line that it reports.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use strum::{Display, EnumString, IntoStaticStr};

/// The label that all objects of a check have, and its value: who writes them. Slices have the
/// value as their `endpointslice.kubernetes.io/managed-by`, too.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "epguard-check");

/// A protocol that is called.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE", ascii_case_insensitive)]
pub enum CallProtocol {
    /// A connection for each call.
    Tcp,
    /// A datagram for each call.
    Udp,
}

impl CallProtocol {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// `TCP` or `UDP`, as the API writes it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What is called. Its text is `TCP:10.96.0.10:8080` or `UDP:[fd00::10]:8080`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallTarget {
    /// The protocol.
    pub protocol: CallProtocol,
    /// IP and port of a Service or of a pod.
    pub address: SocketAddr,
}

impl fmt::Display for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.protocol, self.address)
    }
}

impl FromStr for CallTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once(':')
            .and_then(|(protocol, address)| Some((protocol.parse().ok()?, address.parse().ok()?)));
        let (protocol, address) =
            parts.ok_or_else(|| format!("{text:?} is not a call, as in TCP:10.96.0.10:8080"))?;
        Ok(Self { protocol, address })
    }
}

impl TryFrom<String> for CallTarget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CallTarget> for String {
    fn from(target: CallTarget) -> Self {
        target.to_string()
    }
}

/// What became of the calls of one pod. A termination message has room for it: 4096 octets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReport {
    /// Targets that did not answer in time, before any call was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<CallTarget>,
    /// The counted calls. None are made if a target is unreached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallCount>,
}

impl CallReport {
    /// The calls to a target; none if none were made.
    pub fn to(&self, target: &CallTarget) -> Option<&CallCount> {
        self.calls.iter().find(|count| count.to == *target)
    }
}

/// The calls to one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallCount {
    /// What was called.
    pub to: CallTarget,
    /// How many calls, each with a source port of its own.
    pub sent: u64,
    /// How many were answered, by the names that the answers have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answered: BTreeMap<String, u64>,
    /// How many were refused: a RST, or an ICMP error that says so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// How many had no answer in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_out: u64,
    /// How many failed in another way, by the system's error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl CallCount {
    /// No call was made yet.
    pub const fn new(to: CallTarget) -> Self {
        Self {
            to,
            sent: 0,
            answered: BTreeMap::new(),
            refused: 0,
            timed_out: 0,
            failed: BTreeMap::new(),
        }
    }

    /// Adds one call.
    pub fn add(&mut self, end: CallEnd) {
        self.sent += 1;
        match end {
            CallEnd::Answered(name) => *self.answered.entry(name).or_default() += 1,
            CallEnd::Refused => self.refused += 1,
            CallEnd::TimedOut => self.timed_out += 1,
            CallEnd::Failed(why) => *self.failed.entry(why).or_default() += 1,
        }
    }

    /// How many were answered by this name.
    pub fn answered_by(&self, name: &str) -> u64 {
        self.answered.get(name).copied().unwrap_or_default()
    }
}

/// What became of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    /// A server with this name answered.
    Answered(String),
    /// It was refused.
    Refused,
    /// No answer came in time.
    TimedOut,
    /// The system's error.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_is_written() {
        for (text, shown) in [
            ("tcp:10.96.0.10:8080", "TCP:10.96.0.10:8080"),
            ("UDP:[fd00::10]:53", "UDP:[fd00::10]:53"),
        ] {
            assert_eq!(text.parse::<CallTarget>().unwrap().to_string(), shown);
        }
        for text in ["", "10.96.0.10:8080", "SCTP:10.96.0.10:1", "TCP:web:80"] {
            let error = text.parse::<CallTarget>().unwrap_err();
            assert!(error.contains("as in TCP:10.96.0.10:8080"), "{error}");
        }
    }

    #[test]
    fn the_largest_report_fits_into_a_termination_message() {
        let mut report = CallReport::default();
        for number in 0..16 {
            let address = format!("[fd00:1234:5678:9abc:def0:1234:5678:{number:x}]:8080");
            let mut count = CallCount::new(CallTarget {
                protocol: CallProtocol::Udp,
                address: address.parse().unwrap(),
            });
            count.add(CallEnd::Answered("stranger-500".into()));
            count.add(CallEnd::Refused);
            count.add(CallEnd::TimedOut);
            count.add(CallEnd::Failed("Network is unreachable".into()));
            report.calls.push(count);
        }
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.len() <= 4096, "{} octets", text.len());
        assert_eq!(serde_json::from_str::<CallReport>(&text).unwrap(), report);
    }
}
