//! Entries of tables: of pinned maps as `bpftool map dump` prints them, and compared with an expectation.

use super::format::Entries;
use crate::process;
use anyhow::{Context, Result};
use epguard_common::{Addr, Uid};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// Entries with `key` and `value` by field names. The copy of the key in most values is left out.
pub fn read(pin_dir: &Path, map: &str) -> Result<Vec<Value>> {
    let mut bpftool = Command::new("bpftool");
    bpftool.args(["-j", "map", "dump", "pinned"]);
    let text = process::output(bpftool.arg(path(pin_dir, map)))?;
    let entries: Vec<Value> = serde_json::from_str(&text).context("bpftool wrote no JSON array")?;
    let formatted = |entry: Value| entry.get("formatted").cloned().unwrap_or(entry);
    let entries = entries.into_iter().map(formatted);
    Ok(entries.map(without_second_key).collect())
}

fn without_second_key(mut entry: Value) -> Value {
    let inner = entry["value"].get("value").cloned();
    let repeats = entry["value"].get("key") == entry.get("key");
    if let Some(inner) = inner.filter(|_| repeats) {
        entry["value"] = inner;
    }
    entry
}

/// Octets: numbers, or hexadecimal text in some versions of bpftool.
pub fn octets(values: &[Value]) -> Option<Vec<u8>> {
    let octet = |value: &Value| match value {
        Value::String(text) => u8::from_str_radix(text.trim_start_matches("0x"), 16).ok(),
        number => number.as_u64()?.try_into().ok(),
    };
    values.iter().map(octet).collect()
}

/// Where a map is pinned.
pub fn path(pin_dir: &Path, map: &str) -> std::path::PathBuf {
    epguard::kernel::maps::directory(pin_dir).join(map)
}

/// The first expectation that does not hold, if any.
#[must_use]
pub fn mismatch(expected: &Entries, seen: &[Value]) -> Option<String> {
    if let Some(count) = expected.count.filter(|count| *count != seen.len()) {
        return Some(format!("{} entries instead of {count}", seen.len()));
    }
    let found = |wanted: &&Value| seen.iter().any(|entry| matches(wanted, entry));
    if let Some(missing) = expected.has.iter().find(|wanted| !found(wanted)) {
        return Some(format!("no entry has {missing}"));
    }
    let unwanted = expected.lacks.iter().find(found)?;
    Some(format!("there is an entry with {unwanted}"))
}

/// Whether a value matches: an object needs at least the expected fields, and a struct may wrap a single field. An expected
/// address or UID as text matches its 16 octets (IPv4 mapped into IPv6).
fn matches(expected: &Value, seen: &Value) -> bool {
    match (expected, seen) {
        (Value::Object(wanted), Value::Object(fields)) => {
            wanted.iter().all(|(name, value)| fields.get(name).is_some_and(|seen| matches(value, seen)))
        }
        (_, Value::Object(fields)) if fields.len() == 1 => {
            fields.values().all(|inner| matches(expected, inner))
        }
        (Value::String(text), Value::Array(octets)) => {
            let seen = self::octets(octets);
            seen.is_some_and(|seen| spelled(text).is_some_and(|wanted| wanted[..] == seen[..]))
        }
        (Value::Array(wanted), Value::Array(items)) => {
            wanted.len() == items.len()
                && wanted.iter().zip(items).all(|(wanted, item)| matches(wanted, item))
        }
        _ => expected == seen,
    }
}

fn spelled(text: &str) -> Option<[u8; 16]> {
    let ip = text.parse::<IpAddr>().ok().map(|ip| Addr::from(ip).octets);
    ip.or_else(|| Some(Uid::parse(text)?.octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_that_repeats_its_key_is_shown_without_it() {
        let plain = json!({"key": 7, "value": {"slot": 1}});
        let keyed = json!({"key": 7, "value": {"key": 7, "value": {"slot": 1}}});
        let other = json!({"key": 7, "value": {"key": 8, "value": {"slot": 1}}});
        assert_eq!(without_second_key(plain.clone()), plain);
        assert_eq!(without_second_key(keyed), plain);
        assert_eq!(without_second_key(other.clone()), other);
    }

    #[test]
    fn an_object_may_have_more_fields_than_expected_but_not_others() {
        assert!(matches(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!matches(&json!({"a": 1}), &json!({"b": 1})));
    }

    #[test]
    fn an_address_is_found_in_the_octets_of_a_struct() {
        let octets = json!({"addr": {"octets": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 244, 1, 10]}});
        assert!(matches(&json!({"addr": "10.244.1.10"}), &octets));
        assert!(!matches(&json!({"addr": "10.244.1.11"}), &octets));
    }

    #[test]
    fn a_uid_is_found_in_hexadecimal_octets() {
        let mut octets = vec![json!("0x00"); 16];
        octets[15] = json!("0x2a");
        assert!(matches(&json!("00000000-0000-0000-0000-00000000002a"), &json!(octets)));
    }

    #[test]
    fn a_field_that_must_be_absent_is_named() {
        let expected = Entries { lacks: vec![json!({"a": 1})], ..Entries::default() };
        assert_eq!(mismatch(&expected, &[json!({"a": 2})]), None);
        assert_eq!(mismatch(&expected, &[json!({"a": 1})]).unwrap(), "there is an entry with {\"a\":1}");
    }

    #[test]
    fn a_wrong_number_is_named() {
        let expected = Entries { count: Some(0), ..Entries::default() };
        assert_eq!(mismatch(&expected, &[json!(1)]).unwrap(), "1 entries instead of 0");
    }
}
