//! What pinned maps hold: entries as `bpftool map dump` prints them, compared with an expectation.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use epguard_common::{Addr, Uid};
use serde_json::Value;

use super::format::Entries;
use crate::process;

/// Entries with `key` and `value` by field names. The copy of the key in most values is left out.
pub fn read(pin_dir: &Path, map: &str) -> Result<Vec<Value>> {
    let mut bpftool = Command::new("bpftool");
    bpftool.args(["-j", "map", "dump", "pinned"]);
    let text = process::output(bpftool.arg(path(pin_dir, map)))?;
    let entries: Vec<Value> = serde_json::from_str(&text).context("bpftool wrote no JSON array")?;
    let entries = entries
        .into_iter()
        .map(|entry: Value| entry.get("formatted").cloned().unwrap_or(entry));
    Ok(entries.map(without_second_key).collect())
}

fn without_second_key(mut entry: Value) -> Value {
    let inner = entry["value"].get("value").cloned();
    let repeats = entry["value"].get("key") == entry.get("key");
    if let Some(inner) = inner
        && repeats
    {
        entry["value"] = inner;
    }
    entry
}

/// Octets: numbers, or hexadecimal text in some versions of bpftool.
pub fn octets(values: &[Value]) -> Option<Vec<u8>> {
    values
        .iter()
        .map(|value: &Value| match value {
            Value::String(text) => u8::from_str_radix(text.trim_start_matches("0x"), 16).ok(),
            number => number.as_u64()?.try_into().ok(),
        })
        .collect()
}

/// Where a map is pinned.
pub fn path(pin_dir: &Path, map: &str) -> std::path::PathBuf {
    epguard::kernel::maps::directory(pin_dir).join(map)
}

/// The first expectation that does not hold, if any.
pub fn mismatch(expected: &Entries, seen: &[Value]) -> Option<String> {
    if let Some(count) = expected.count.filter(|count| *count != seen.len()) {
        return Some(format!("{} entries instead of {count}", seen.len()));
    }
    for wanted in &expected.has {
        if !seen.iter().any(|entry| matches(wanted, entry)) {
            return Some(format!("no entry has {wanted}"));
        }
    }
    for unwanted in &expected.lacks {
        if seen.iter().any(|entry| matches(unwanted, entry)) {
            return Some(format!("there is an entry with {unwanted}"));
        }
    }
    None
}

/// Whether a value matches: an object needs at least the expected fields, and a struct may wrap a
/// single field. An expected address or UID as text matches its 16 octets (IPv4 mapped into IPv6).
fn matches(expected: &Value, seen: &Value) -> bool {
    match (expected, seen) {
        (Value::Object(wanted), Value::Object(fields)) => wanted
            .iter()
            .all(|(name, value)| fields.get(name).is_some_and(|seen| matches(value, seen))),
        (_, Value::Object(fields)) if fields.len() == 1 => {
            fields.values().all(|inner| matches(expected, inner))
        }
        (Value::String(text), Value::Array(octets)) => {
            let seen = self::octets(octets);
            seen.is_some_and(|seen| spelled(text).is_some_and(|wanted| wanted[..] == seen[..]))
        }
        (Value::Array(wanted), Value::Array(items)) => {
            wanted.len() == items.len()
                && wanted
                    .iter()
                    .zip(items)
                    .all(|(wanted, item)| matches(wanted, item))
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
    fn an_entry_may_have_more_fields_and_octets_are_what_they_spell() {
        let has = |entry| Entries {
            has: vec![entry],
            ..Entries::default()
        };
        let lacks = |entry| Entries {
            lacks: vec![entry],
            ..Entries::default()
        };
        let address =
            json!({"addr": {"octets": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 244, 1, 10]}});
        let mut uid = vec![json!("0x00"); 16];
        uid[15] = json!("0x2a");
        for (expected, seen, wrong) in [
            (has(json!({"a": 1})), json!({"a": 1, "b": 2}), None),
            (
                has(json!({"a": 1})),
                json!({"b": 1}),
                Some("no entry has {\"a\":1}"),
            ),
            (has(json!({"addr": "10.244.1.10"})), address.clone(), None),
            (lacks(json!({"addr": "10.244.1.11"})), address, None),
            (
                has(json!("00000000-0000-0000-0000-00000000002a")),
                json!(uid),
                None,
            ),
            (
                lacks(json!({"a": 1})),
                json!({"a": 1}),
                Some("there is an entry with {\"a\":1}"),
            ),
            (
                Entries {
                    count: Some(0),
                    ..Entries::default()
                },
                json!(1),
                Some("1 entries instead of 0"),
            ),
        ] {
            assert_eq!(
                mismatch(&expected, &[seen]).as_deref(),
                wrong,
                "{expected:?}"
            );
        }
    }
}
