//! Text in the JSON of an object: the addresses in it, and what many objects have in common (namespaces, nodes, Services, sets of
//! labels), which is stored once.

use epguard_common::Addr;
use serde::Deserialize;
use std::borrow::{Borrow, Cow};
use std::collections::HashSet;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A text that is part of the JSON, and copied only if it has escapes there. A `Cow` in a list or a map would always be a copy.
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

static TEXTS: LazyLock<Pool<Text>> = LazyLock::new(Pool::default);
static HASHES: LazyLock<Pool<Arc<[u64]>>> = LazyLock::new(Pool::default);

/// A text that other objects refer to as well.
#[must_use]
pub fn shared(text: &str) -> Text {
    TEXTS.get(text)
}

/// Hashes that other objects have as well.
pub(super) fn shared_hashes(hashes: &[u64]) -> Arc<[u64]> {
    HASHES.get(hashes)
}

/// All values of a type that were shared and are in use, and some that are no more.
#[derive(Debug)]
struct Pool<T>(Mutex<Known<T>>);

#[derive(Debug)]
struct Known<T> {
    values: HashSet<T>,
    /// The number of values at which to drop those that nothing else refers to.
    sweep_at: usize,
}

/// A value with a count of its references.
trait Counted {
    fn is_unused(&self) -> bool;
}

impl Counted for Text {
    fn is_unused(&self) -> bool {
        Self::strong_count(self) == Some(1)
    }
}

impl Counted for Arc<[u64]> {
    fn is_unused(&self) -> bool {
        Self::strong_count(self) == 1
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Known { values: HashSet::new(), sweep_at: FIRST_SWEEP }))
    }
}

impl<T: Counted + Clone + Eq + Hash> Pool<T> {
    fn get<Q: Eq + Hash + ?Sized>(&self, value: &Q) -> T
    where
        T: Borrow<Q> + for<'a> From<&'a Q>,
    {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known.values.get(value) {
            return value.clone();
        }
        if known.values.len() >= known.sweep_at {
            known.values.retain(|value| !value.is_unused());
            known.sweep_at = FIRST_SWEEP.max(2 * known.values.len());
        }
        let value = T::from(value);
        known.values.insert(value.clone());
        value
    }
}

/// Reads an address that can be one host's; anything else (a name, `0.0.0.0`, multicast) is no address. Old objects have IPv4 addresses
/// with leading zeros, which Kubernetes reads as decimal (`ParseIPSloppy`).
pub(super) fn addr(text: &str) -> Option<Addr> {
    let ip = text.parse::<IpAddr>().ok().or_else(|| sloppy(text).map(IpAddr::V4));
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
        assert_eq!(texts.iter().map(is_copy).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(texts.iter().map(|text| &**text).collect::<Vec<_>>(), ["web", "a\nb", ""]);
    }

    #[test]
    fn a_value_is_stored_once() {
        let pool = Pool::<Text>::default();
        let (one, other) = (pool.get("shop"), pool.get("shop"));
        assert!(Text::ptr_eq(&one, &other));
        assert!(!Text::ptr_eq(&one, &pool.get("web")));
    }

    #[test]
    fn values_without_references_are_dropped_and_others_stay() {
        let pool = Pool::<Text>::default();
        let used = pool.get("used");
        for number in 0..10 * FIRST_SWEEP {
            pool.get(number.to_string().as_str());
        }
        assert!(pool.0.lock().unwrap().values.len() <= FIRST_SWEEP);
        assert!(Text::ptr_eq(&used, &pool.get("used")));
    }

    #[test]
    fn malformed_and_unspecified_addresses_are_refused_and_leading_zeros_are_not() {
        assert_eq!(addr("banana"), None);
        assert_eq!(addr("0.0.0.0"), None);
        for text in ["10.1.2.3", "010.001.2.03"] {
            assert_eq!(addr(text), Some(Addr::v4([10, 1, 2, 3])));
        }
        for text in ["10.1.2", "10.1.2.3.4", "10.1.2.256", "10.+1.2.3", "10..2.3", "fe80::1%eth0"] {
            assert_eq!(addr(text), None, "{text}");
        }
    }
}
