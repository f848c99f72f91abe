//! Text in the JSON of an object: the addresses in it, and what many objects have in common
//! (namespaces, nodes, Services, sets of labels), which is stored once.

use epguard_common::Addr;
use serde::Deserialize;
use std::borrow::{Borrow, Cow};
use std::collections::HashSet;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

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

/// A text that cannot change; its clones are the same text in memory.
pub type Text = arcstr::ArcStr;

/// The first number of values at which unused ones are dropped.
const FIRST_SWEEP: usize = 1_024;

static TEXTS: Shared<Text> =
    LazyLock::new(|| Pool::new(|text| Text::strong_count(text) == Some(1)));
static HASHES: Shared<Arc<[u64]>> =
    LazyLock::new(|| Pool::new(|hashes| Arc::strong_count(hashes) == 1));

/// A text that other objects refer to as well.
pub fn shared(text: &str) -> Text {
    TEXTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(text)
}

/// Hashes that other objects have as well.
pub(super) fn shared_hashes(hashes: &[u64]) -> Arc<[u64]> {
    HASHES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(hashes)
}

type Shared<T> = LazyLock<Mutex<Pool<T>>>;

/// All values of a type that were shared and are in use, and some that are no more.
#[derive(Debug)]
struct Pool<T> {
    /// True if nothing else refers to the value.
    is_unused: fn(&T) -> bool,
    values: HashSet<T>,
    /// The number of values at which unused ones are dropped.
    sweep_at: usize,
}

impl<T: Clone + Eq + Hash> Pool<T> {
    fn new(is_unused: fn(&T) -> bool) -> Mutex<Self> {
        Mutex::new(Self {
            is_unused,
            values: HashSet::new(),
            sweep_at: FIRST_SWEEP,
        })
    }

    fn get<Q: Eq + Hash + ?Sized>(&mut self, value: &Q) -> T
    where
        T: Borrow<Q> + for<'a> From<&'a Q>,
    {
        if let Some(value) = self.values.get(value) {
            return value.clone();
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| !(self.is_unused)(value));
            self.sweep_at = FIRST_SWEEP.max(2 * self.values.len());
        }
        let value = T::from(value);
        self.values.insert(value.clone());
        value
    }
}

/// Reads an address that can be one host's; anything else (a name, `0.0.0.0`, multicast) is no
/// address. Old objects have IPv4 addresses with leading zeros, which Kubernetes reads as decimal
/// (`ParseIPSloppy`).
pub(super) fn addr(text: &str) -> Option<Addr> {
    let ip = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| sloppy(text).map(IpAddr::V4));
    ip.map(Addr::from).filter(|addr| addr.is_unicast())
}

fn sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let is_number = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        *octet = part.parse().ok().filter(|_| is_number)?;
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

    fn texts() -> Pool<Text> {
        Pool::new(|text| Text::strong_count(text) == Some(1))
            .into_inner()
            .unwrap()
    }

    #[test]
    fn values_without_references_are_dropped_and_others_stay() {
        let mut pool = texts();
        let used = pool.get("used");
        for number in 0..10 * FIRST_SWEEP {
            pool.get(number.to_string().as_str());
        }
        assert!(pool.values.len() <= FIRST_SWEEP);
        assert!(
            Text::ptr_eq(&used, &pool.get("used")),
            "a value is stored once"
        );
        assert!(!Text::ptr_eq(&used, &pool.get("web")));
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
