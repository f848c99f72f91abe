//! What `bpftool` shows of the maps: names for every field.

use super::*;
use crate::lifecycle::node;
use aya::maps::{Array, HashMap};
use epguard::kernel::maps;
use serde_json::{Value, json};
use std::path::Path;

/// `lifecycle::layouts` has the types, sizes and fields of every map; these two show how `bpftool`
/// prints what the agent writes.
#[test]
#[ignore = "needs root: loads eBPF programs"]
fn bpftool_names_every_field_of_a_denial_and_of_the_settings() {
    let mut datapath = kernel::load();
    let uid = |octet| Uid {
        octets: [octet; 16],
    };
    let service = ServiceNumber { number: 70_000 };
    let key = DenialKey {
        addr: Addr::v4([10, 244, 1, 10]),
        service,
        port: 8080,
        protocol: 6,
        reserved: 0,
    };
    let denial = Denial {
        boot_id: uid(0xb0),
        mode: Mode::Observe,
        stopped: 1,
        action: Action::Reject,
        ..denial(Reason::Reused, UidState::Dead)
    };
    let map = datapath.ebpf.map_mut("DENIED").unwrap();
    let mut map: HashMap<_, DenialKey, Keyed<DenialKey, RawDenial>> = map.try_into().unwrap();
    map.insert(
        key,
        Keyed {
            key,
            value: RawDenial::from(denial),
        },
        0,
    )
    .unwrap();
    let addr = json!({"octets": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 244, 1, 10]});
    let key = json!({"addr": addr, "service": {"number": 70_000}, "port": 8080, "protocol": 6, "reserved": 0});
    let uid = |octet| json!({ "octets": uid(octet).octets });
    let value = json!({"dead_uid": uid(0xdd), "owner_uid": uid(0x0e), "boot_id": uid(0xb0),
        "reason": 2, "uid_state": 2, "mode": 1, "stopped": 1, "action": 2});
    assert_eq!(
        dumped("DENIED"),
        [json!({"key": key, "value": {"key": key, "value": value}})]
    );

    let mode = |reason: Reason, more| (reason as u32 + more) % 3;
    let action = |reason: Reason| reason as u32 % 4;
    let config = Config {
        mode: Mode::Enforce,
        reasons: PerReason::of_each(|reason| Mode::from_raw(mode(reason, 0))),
        configured: PerReason::of_each(|reason| Mode::from_raw(mode(reason, 1))),
        actions: PerReason::of_each(|reason| Action::from_raw(action(reason))),
        limits: AnswerLimits {
            per_suspect: 2,
            per_node: 3,
        },
        actions_from_config_map: 1,
        debug: 1,
        from_config_map: 1,
    };
    let map = datapath.ebpf.map_mut("CONFIG").unwrap();
    let mut map: Array<_, RawConfig> = map.try_into().unwrap();
    map.set(0, RawConfig::from(config), 0).unwrap();
    let value = json!({"mode": 2, "debug": 1, "from_config_map": 1, "actions_from_config_map": 1,
        "limits": {"per_suspect": 2, "per_node": 3}, "actions": per_reason(action), "reasons": per_reason(|reason| mode(reason, 0)),
        "configured": per_reason(|reason| mode(reason, 1))});
    assert_eq!(dumped("CONFIG"), [json!({"key": 0, "value": value})]);
}

/// The keys and values of a map with the names that its BTF gives them.
fn dumped(map: &str) -> Vec<Value> {
    let Value::Array(entries) = bpftool("dump", map) else {
        panic!("{map} is no list");
    };
    entries
        .into_iter()
        .map(|mut entry: Value| entry["formatted"].take())
        .collect()
}

/// A number for each reason.
fn per_reason(number: impl Fn(Reason) -> u32) -> Value {
    let named =
        Reason::TO_DENY.map(|reason| (reason.as_str().replace('-', "_"), json!(number(reason))));
    let reserved = json!(vec![0; PER_REASON - named.len()]);
    named
        .into_iter()
        .chain([("reserved".to_owned(), reserved)])
        .collect()
}

/// What `bpftool -j map VERB pinned` prints of a map.
pub fn bpftool(verb: &str, map: &str) -> Value {
    let pin = maps::directory(Path::new(kernel::PIN_DIR)).join(map);
    node::json(
        "bpftool",
        &["-j", "map", verb, "pinned", pin.to_str().unwrap()],
    )
}
