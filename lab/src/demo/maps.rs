//! The kernel's maps, read with `bpftool` and printed for human readers.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv6Addr;

use anyhow::Result;
use epguard_common::Uid;
use serde_json::Value;

use super::screen::Screen;
use crate::api::Kind;
use crate::scenario::entries;
use crate::scenario::stage::Stage;

/// The maps, and the use of each.
const MAPS: [(&str, &str); 4] = [
    ("OWNERS", "which pod has an IP, by the API"),
    (
        "SUSPECTS",
        "IPs that a dead pod left behind: the only ones that cost more than a look",
    ),
    (
        "SERVICES",
        "the addresses of the Services that may still lead to such an IP",
    ),
    (
        "DENIED",
        "which endpoint of which Service is denied, and the proof",
    ),
];

/// Prints the four maps.
pub fn show(stage: &Stage, screen: &mut Screen<impl Write>) -> Result<()> {
    let pods = stage.cluster.store.list(Kind::Pod);
    let names: BTreeMap<String, String> = pods.iter().filter_map(name).collect();
    for (map, purpose) in MAPS {
        let read = entries::read(&stage.agent.pin_dir, map)?;
        let path = entries::path(&stage.agent.pin_dir, map);
        screen.pause();
        screen.command(&format!("bpftool map dump pinned {}", path.display()));
        screen.detail(&format!("  # {map}: {purpose}"));
        let mut lines: Vec<[String; 2]> = read
            .iter()
            .map(|entry| [&entry["key"], &entry["value"]].map(|part| words(part, &names)))
            .collect();
        lines.sort();
        for [key, value] in &lines {
            screen.field("  key    ", key);
            screen.field("  value  ", value);
        }
    }
    Ok(())
}

fn name(pod: &Value) -> Option<(String, String)> {
    let meta = &pod["metadata"];
    let name = format!("{}/{}", meta["namespace"].as_str()?, meta["name"].as_str()?);
    Some((meta["uid"].as_str()?.into(), name))
}

/// `field=value` words. Octets are printed as address or UID; reserved fields are left out.
fn words(value: &Value, names: &BTreeMap<String, String>) -> String {
    if let Some(octets) = octets(value) {
        return Ipv6Addr::from(octets).to_canonical().to_string();
    }
    let Some(fields) = value.as_object() else {
        return value.to_string().replace('"', "");
    };
    let mut shown = Vec::new();
    for (field, value) in fields {
        if field != "reserved" {
            shown.push(word(field, value, names));
        }
    }
    shown.join(" ")
}

fn word(field: &str, value: &Value, names: &BTreeMap<String, String>) -> String {
    let octets = octets(value);
    if let Some(octets) = octets
        && (field.contains("uid") || field == "boot_id")
    {
        return format!("{field}={}", uid(octets, names));
    }
    if let Some(slot) = value.get("number") {
        return format!("{field}={slot}");
    }
    if octets.is_none() && value.is_object() {
        return format!("{field}={{{}}}", words(value, names));
    }
    format!("{field}={}", words(value, names))
}

fn uid(octets: [u8; 16], names: &BTreeMap<String, String>) -> String {
    let text = Uid { octets }.to_string();
    match names.get(&text) {
        _ if octets == [0; 16] => "none".into(),
        Some(name) => format!("{}…({name})", &text[..8]),
        None => format!("{}…", &text[..8]),
    }
}

fn octets(value: &Value) -> Option<[u8; 16]> {
    let octets = value.get("octets")?.as_array()?;
    entries::octets(octets)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn octets_become_addresses_and_names() {
        let address = json!({"octets": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 244, 1, 11]});
        let mut uid = vec!["0x00"; 16];
        uid[0] = "0xab";
        let rate = json!({"events": 1, "answers": {"number": 2}});
        let value = json!({"addr": address, "rate": rate, "port": 80, "slot": {"number": 32769}, "dead_uid": {"octets": uid}, "reserved": [0]});
        let names = [("ab000000-0000-0000-0000-000000000000".into(), "a/p".into())].into();
        assert_eq!(words(&address, &names), "10.244.1.11");
        assert_eq!(
            words(&value, &names),
            "addr=10.244.1.11 dead_uid=ab000000…(a/p) port=80 rate={answers=2 events=1} slot=32769"
        );
    }
}
