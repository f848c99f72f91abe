//! The question that `epguard why` answers.

use super::Moment;
use crate::shared::args::ServiceArgs;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A question about an IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The IP, and the port if only one matters.
    pub subject: Subject,
    /// The Services that matter; the IP itself does if all do.
    pub services: ServiceArgs,
    /// When; none: now.
    pub at: Option<Moment>,
}

/// `IP` or `IP:PORT`; IPv6 with a port in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// IPv4 as such, never v4-mapped.
    pub ip: IpAddr,
    /// Target port.
    pub port: Option<u16>,
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let (ip, port) = if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
            (ip, None)
        } else if let Ok(endpoint) = text.parse::<SocketAddr>() {
            (endpoint.ip(), Some(endpoint.port()))
        } else {
            let form = "neither an IP nor IP:PORT; with a port, IPv6 stands in brackets: [fd00::a]:8080";
            return Err(form.to_owned());
        };
        let ip = ip.to_canonical();
        Ok(Self { ip, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> Option<(String, Option<u16>)> {
        let subject: Subject = text.parse().ok()?;
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
}
