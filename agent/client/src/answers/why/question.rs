//! The question that `epguard why` answers, and times as people write and read them; the agent's
//! clock is `CLOCK_BOOTTIME`.

use crate::shared::args::ServiceArgs;
use clap::Args;
use epguard_core::history::Chronicle;
use jiff::{SignedDuration, Timestamp};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// A question about an IP.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct WhyQuestion {
    /// The endpoint's IP, not the Service's
    #[arg(value_name = "IP[:PORT]")]
    pub subject: WhySubject,
    /// The Services that matter; the IP itself does if all do.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// The verdict at that time: RFC 3339, or how long ago (90s, 5m, 1h30m) [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<WhyMoment>,
}

/// `IP` or `IP:PORT`; IPv6 with a port in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhySubject {
    /// IPv4 as such, never v4-mapped.
    pub ip: IpAddr,
    /// Target port.
    pub port: Option<u16>,
}

impl FromStr for WhySubject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let (ip, port) = if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
            (ip, None)
        } else if let Ok(endpoint) = text.parse::<SocketAddr>() {
            (endpoint.ip(), Some(endpoint.port()))
        } else {
            let form =
                "neither an IP nor IP:PORT; with a port, IPv6 stands in brackets: [fd00::a]:8080";
            return Err(form.to_owned());
        };
        let ip = ip.to_canonical();
        Ok(Self { ip, port })
    }
}

/// A moment that the operator names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyMoment {
    /// By the node's wall clock.
    At(Timestamp),
    /// So long before now.
    Ago(Duration),
}

impl FromStr for WhyMoment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let ago = text.parse::<SignedDuration>().ok();
        ago.and_then(|ago| Duration::try_from(ago).ok())
            .map(Self::Ago)
            .ok_or("neither a time (2026-11-21T10:47:01Z) nor how long ago (90s, 5m, 1h30m)")
    }
}

impl WhyMoment {
    /// The moment on the clock of the chronicle's steps, ms; 0 if it is before the clock's
    /// beginning.
    pub fn on_clock_of(self, chronicle: &Chronicle) -> u64 {
        match self {
            Self::Ago(ago) => {
                let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
                chronicle.now_ms.saturating_sub(ago)
            }
            Self::At(at) => {
                let since = at.as_millisecond() - chronicle.wall_ms;
                chronicle.now_ms.saturating_add_signed(since)
            }
        }
    }
}

/// A moment of the chronicle in UTC, to the millisecond.
pub(crate) fn wall_time(chronicle: &Chronicle, at_ms: u64) -> String {
    let before = i64::try_from(chronicle.now_ms.abs_diff(at_ms)).unwrap_or(i64::MAX);
    let before = if at_ms > chronicle.now_ms {
        -before
    } else {
        before
    };
    let at = Timestamp::from_millisecond(chronicle.wall_ms.saturating_sub(before));
    at.map_or_else(|_| "?".to_owned(), |at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> Option<(String, Option<u16>)> {
        let subject: WhySubject = text.parse().ok()?;
        Some((subject.ip.to_string(), subject.port))
    }

    #[test]
    fn an_ip_is_read_with_and_without_a_port() {
        assert_eq!(subject("10.1.1.1"), Some(("10.1.1.1".into(), None)));
        assert_eq!(subject("10.1.1.1:80"), Some(("10.1.1.1".into(), Some(80))));
        assert_eq!(subject("fd00::a"), Some(("fd00::a".into(), None)));
        assert_eq!(subject("[fd00::a]"), Some(("fd00::a".into(), None)));
        assert_eq!(subject("[fd00::a]:80"), Some(("fd00::a".into(), Some(80))));
        assert_eq!(subject("::ffff:10.1.1.1"), Some(("10.1.1.1".into(), None)));
        for bad in ["", "web", "10.1.1.1:", "10.1.1.1:70000", "10.1.1.1/24"] {
            assert_eq!(subject(bad), None, "{bad}");
        }
    }
    #[test]
    fn a_time_is_read_as_a_moment_or_as_how_long_ago() {
        assert_eq!("90s".parse(), Ok(WhyMoment::Ago(Duration::from_secs(90))));
        assert_eq!("2h".parse(), Ok(WhyMoment::Ago(Duration::from_hours(2))));
        assert_eq!("1h30m".parse(), Ok(WhyMoment::Ago(Duration::from_mins(90))));
        let at = Timestamp::from_millisecond(1_000).unwrap();
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(WhyMoment::At(at)));
        for bad in ["", "yesterday", "-5m", "5", "99999999999999999999h"] {
            assert!(bad.parse::<WhyMoment>().is_err(), "{bad}");
        }
    }

    #[test]
    fn wall_time_and_boot_time_translate_both_ways() {
        let chronicle = super::super::chronicle("10.0.0.1", epguard_core::state::View::default());
        assert_eq!(wall_time(&chronicle, 4_500), "1970-01-01T00:16:39.500Z");
        let moment: WhyMoment = "1970-01-01T00:16:39.500Z".parse().unwrap();
        assert_eq!(moment.on_clock_of(&chronicle), 4_500);
        assert_eq!(
            WhyMoment::Ago(Duration::from_secs(2)).on_clock_of(&chronicle),
            3_000
        );
        assert_eq!(
            WhyMoment::Ago(Duration::from_hours(2)).on_clock_of(&chronicle),
            0
        );
    }
}
