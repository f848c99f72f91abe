//! Compares JSON with an expectation.

use std::net::IpAddr;

use epguard_common::{Addr, Uid};
use serde_json::Value;

use super::bpftool;
use super::format::Entries;

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
            let seen = bpftool::octets(octets);
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
