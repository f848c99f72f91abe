//! What many objects have in their JSON: texts, addresses, and values that may be `null`.

use epguard_common::Addr;
use serde::{Deserialize, Deserializer};
use std::borrow::{Borrow, Cow};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;

/// A text that is part of the JSON, and copied only if it has escapes there. A `Cow` in a list or a
/// map would always be a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct RawText<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for RawText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for RawText<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// For maps: both compare and hash as their text.
impl Borrow<str> for RawText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for RawText<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

/// A value that is its default where the API has `null`: so Go writes an empty list without
/// `omitempty`.
#[derive(Default)]
pub struct OrDefault<T>(pub(super) T);

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for OrDefault<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self(Option::deserialize(d)?.unwrap_or_default()))
    }
}

impl<T> Deref for OrDefault<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// An address in an object of its own.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawIp<'a> {
    #[serde(borrow, alias = "address")]
    pub(super) ip: RawText<'a>,
}

impl RawIp<'_> {
    pub(super) fn addr(&self) -> Option<Addr> {
        addr(&self.ip)
    }
}

/// Reads an address that can be one host's; anything else (a name, `0.0.0.0`, multicast) is no
/// address. Old objects have IPv4 addresses with leading zeros, which Kubernetes reads as decimal
/// (`ParseIPSloppy`).
pub(super) fn addr(text: &str) -> Option<Addr> {
    let ip = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| sloppy_ipv4(text).map(IpAddr::V4));
    ip.map(Addr::from).filter(|addr| addr.is_unicast())
}

fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        // `parse` would accept a sign.
        if !part.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_with_escapes_is_copied() {
        let texts: Vec<RawText<'_>> = serde_json::from_str(r#"["web", "a\nb", ""]"#).unwrap();
        let is_copy = |text: &RawText<'_>| matches!(text.0, Cow::Owned(_));
        assert_eq!(
            texts.iter().map(is_copy).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert_eq!(
            texts.iter().map(|text| &**text).collect::<Vec<_>>(),
            ["web", "a\nb", ""]
        );
    }

    #[test]
    fn malformed_and_unspecified_addresses_are_refused_and_leading_zeros_are_not() {
        assert_eq!(addr("banana"), None);
        assert_eq!(addr("0.0.0.0"), None);
        for text in ["10.1.2.3", "010.001.2.03"] {
            assert_eq!(addr(text), Some(Addr::v4([10, 1, 2, 3])));
        }
        for text in [
            "10.1.2",
            "10.1.2.3.4",
            "10.1.2.256",
            "10.+1.2.3",
            "10..2.3",
            "fe80::1%eth0",
        ] {
            assert_eq!(addr(text), None, "{text}");
        }
    }
}
