//! Pinned maps as `bpftool map dump` prints them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// Entries with `key` and `value` by field names. The copy of the key in most values is left out.
pub fn entries(pin_dir: &Path, map: &str) -> Result<Vec<Value>> {
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
}
