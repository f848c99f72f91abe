//! The maps as `bpftool` sees them: types, sizes, memory, and names for every field.

use super::kernel;
use aya::Pod;
use aya::maps::{Array, HashMap, PerCpuArray, PerCpuValues};
use epguard::kernel::datapath::Datapath;
use epguard::kernel::maps;
use epguard_common::{
    Action, Addr, AnswerLimits, Backends, Bucket, Config, Connection, Count, Denial, DenialCount, DenialKey,
    Flow, Gate, Keyed, Mac, Mode, Outcome, Owner, PER_REASON, PerReason, Rate, RawConfig, RawDenial, RawRole,
    Reason, Redirected, Return, Role, ServiceNumber, Suspect, Terminated, Uid, UidState, View, Vip, capacity,
    counter,
};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn every_map_has_the_type_the_sizes_and_the_capacity_of_the_abi() {
    fn shape<K, V>(kind: &str, capacity: usize) -> Value {
        json!([kind, size_of::<K>(), size_of::<V>(), capacity])
    }
    let _datapath = kernel::load();
    for map in maps::NAMES {
        let expected = match map {
            "OWNERS" => shape::<Addr, Owner>("hash", capacity::OWNERS),
            "SUSPECTS" => shape::<Addr, Keyed<Addr, Suspect>>("hash", capacity::SUSPECTS),
            "SERVICES" => shape::<Vip, Keyed<Vip, ServiceNumber>>("hash", capacity::SERVICES),
            "DENIED" => shape::<DenialKey, Keyed<DenialKey, RawDenial>>("hash", capacity::DENIED),
            "BACKENDS" => shape::<DenialKey, Keyed<DenialKey, Backends>>("hash", capacity::BACKENDS),
            "FLOWS" => shape::<Flow, Keyed<Flow, Redirected>>("hash", capacity::FLOWS),
            "RETURNS" => shape::<Flow, Keyed<Flow, Return>>("hash", capacity::FLOWS),
            "OPENING" => shape::<Flow, Keyed<Flow, Redirected>>("lru_hash", capacity::OPENING),
            "OPENING_RETURNS" => shape::<Flow, Keyed<Flow, Return>>("lru_hash", capacity::OPENING),
            "CLIENTS" => shape::<Addr, u32>("hash", capacity::FLOWS),
            "TERMINATED" => shape::<Addr, Keyed<Addr, Terminated>>("hash", capacity::TERMINATED),
            "INTERFACES" => shape::<u32, Keyed<u32, RawRole>>("hash", capacity::INTERFACES),
            "MACS" => shape::<u32, Mac>("hash", capacity::MACS),
            "CONNECTIONS" => shape::<i32, Connection>("sk_storage", 0),
            "CILIUM_CT4" | "CILIUM_CT6" => shape::<u32, u32>("array_of_maps", 4),
            "CILIUM_NAT4" | "CILIUM_NAT6" | "CILIUM_SK4" | "CILIUM_SK6" => {
                shape::<u32, u32>("array_of_maps", 2)
            }
            "CONFIG" => shape::<u32, RawConfig>("array", 1),
            "VIEW" => shape::<u32, View>("array", 1),
            "GATE" => shape::<u32, Gate>("array", 1),
            "COUNTERS" => shape::<u32, Count>("percpu_array", capacity::COUNTERS),
            "DENIAL_COUNTS" => shape::<DenialKey, DenialCount>("percpu_hash", capacity::DENIAL_COUNTS),
            "EVENTS" => shape::<(), ()>("ringbuf", capacity::EVENTS),
            "ANSWERS" => shape::<u32, Bucket>("array", 1),
            other => panic!("a map without a stated layout: {other}"),
        };
        let shown = bpftool("show", map);
        let fields = ["type", "bytes_key", "bytes_value", "max_entries"];
        assert_eq!(json!(fields.map(|field| &shown[field])), expected, "{map}");
    }
}

/// The keys and values of a map with the names that its BTF gives them.
fn dumped(map: &str) -> Vec<Value> {
    let Value::Array(entries) = bpftool("dump", map) else {
        panic!("{map} is no list");
    };
    let formatted = |mut entry: Value| entry["formatted"].take();
    entries.into_iter().map(formatted).collect()
}

fn put<K: Pod, V: Pod>(datapath: &mut Datapath, map: &str, key: &K, value: V) {
    let mut map: HashMap<_, K, V> = datapath.ebpf.map_mut(map).unwrap().try_into().unwrap();
    map.insert(key, value, 0).unwrap();
}

/// As the agent does: behind its key.
fn put_keyed<K: Pod, V>(datapath: &mut Datapath, map: &str, key: &K, value: V)
where
    Keyed<K, V>: Pod,
{
    put(datapath, map, key, Keyed { key: *key, value });
}

fn keyed(key: &Value, value: &Value) -> Value {
    json!({"key": key.clone(), "value": {"key": key, "value": value}})
}

fn set<V: Pod>(datapath: &mut Datapath, map: &str, value: V) {
    let mut map: Array<_, V> = datapath.ebpf.map_mut(map).unwrap().try_into().unwrap();
    map.set(0, value, 0).unwrap();
}

fn uid(octet: u8) -> (Uid, Value) {
    let octets = [octet; 16];
    (Uid { octets }, json!({ "octets": octets }))
}

const X: Addr = Addr::v4([10, 244, 1, 10]);

fn x() -> Value {
    json!({ "octets": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 244, 1, 10] })
}

const SERVICE: ServiceNumber = ServiceNumber { number: 70_000 };

/// A number for each reason.
fn per_reason(number: impl Fn(Reason) -> u32) -> Value {
    let named = Reason::TO_DENY.map(|reason| (reason.as_str().replace('-', "_"), json!(number(reason))));
    let reserved = json!(vec![0; PER_REASON - named.len()]);
    named.into_iter().chain([("reserved".to_owned(), reserved)]).collect()
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn bpftool_names_every_field_of_the_settings() {
    let mut datapath = kernel::load();
    let mode = |reason: Reason, more| (reason as u32 + more) % 3;
    let action = |reason: Reason| reason as u32 % 5;
    let config = Config {
        mode: Mode::Enforce,
        reasons: PerReason::of_each(|reason| Mode::from_raw(mode(reason, 0))),
        configured: PerReason::of_each(|reason| Mode::from_raw(mode(reason, 1))),
        actions: PerReason::of_each(|reason| Action::from_raw(action(reason))),
        limits: AnswerLimits { per_suspect: 2, per_node: 3 },
        capture: 4,
        debug: 1,
        from_config_map: 1,
    };
    set(&mut datapath, "CONFIG", RawConfig::from(config));
    let value = json!({"mode": 2, "capture": 4, "debug": 1, "from_config_map": 1, "limits": {"per_suspect": 2, "per_node": 3},
        "actions": per_reason(action), "reasons": per_reason(|reason| mode(reason, 0)),
        "configured": per_reason(|reason| mode(reason, 1))});
    assert_eq!(dumped("CONFIG"), [json!({"key": 0, "value": value})]);

    let view = View {
        lease_deadline_ns: 1 << 40,
        suspects: 2,
        terminated: 3,
        flows: 4,
        entry_at: 32,
        cilium: 1,
        socket_lb: 1,
        socket_lb_epoch: 5,
        last_service: 6,
        relays: 7,
        reserved: 0,
    };
    set(&mut datapath, "VIEW", view);
    let value = json!({"lease_deadline_ns": 1_u64 << 40, "suspects": 2, "terminated": 3, "flows": 4,
        "entry_at": 32, "cilium": 1, "socket_lb": 1, "socket_lb_epoch": 5, "last_service": 6,
        "relays": 7, "reserved": 0});
    assert_eq!(dumped("VIEW"), [json!({"key": 0, "value": value})]);
}

const RATE: Rate = Rate { window_ns: 5, events: 6, reserved: 0, answers: ANSWERS };

const ANSWERS: Bucket = Bucket { spent_until_ns: 7 };
fn rate_json() -> Value {
    json!({"window_ns": 5, "events": 6, "reserved": 0, "answers": {"spent_until_ns": 7}})
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn bpftool_names_every_field_of_the_tables() {
    let mut datapath = kernel::load();
    let ((dead, dead_json), (owner, owner_json), (boot, boot_json)) = (uid(0xdd), uid(0x0e), uid(0xb0));
    let suspect = Suspect { dead_uid: dead, flags: Suspect::DENIED, reserved: 0, rate: RATE };
    put_keyed(&mut datapath, "SUSPECTS", &X, suspect);
    let value = json!({"dead_uid": dead_json, "flags": 1, "reserved": 0, "rate": rate_json()});
    assert_eq!(dumped("SUSPECTS"), [keyed(&x(), &value)]);

    let vip = Vip { addr: X, port: 8080, protocol: 6, reserved: 0 };
    put_keyed(&mut datapath, "SERVICES", &vip, SERVICE);
    let key = json!({"addr": x(), "port": 8080, "protocol": 6, "reserved": 0});
    let value = json!({"number": 70_000});
    assert_eq!(dumped("SERVICES"), [keyed(&key, &value)]);

    let target = DenialKey { addr: X, service: SERVICE, port: 8080, protocol: 6, reserved: 0 };
    let denial = Denial {
        dead_uid: dead,
        owner_uid: owner,
        boot_id: boot,
        reason: Reason::Reused,
        uid_state: UidState::Dead,
        mode: Mode::Observe,
        held: 1,
        action: Action::Reject,
    };
    put_keyed(&mut datapath, "DENIED", &target, RawDenial::from(denial));
    let key = json!({"addr": x(), "service": {"number": 70_000}, "port": 8080, "protocol": 6, "reserved": 0});
    let value = json!({"dead_uid": dead_json, "owner_uid": owner_json, "boot_id": boot_json,
        "reason": 2, "uid_state": 2, "mode": 1, "held": 1, "action": 2});
    assert_eq!(dumped("DENIED"), [keyed(&key, &value)]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn bpftool_names_every_field_of_the_reports() {
    let mut datapath = kernel::load();
    let (owner, owner_json) = uid(0x0e);
    let owner = Owner { uid: owner, generation: 1, since_ns: 2, flags: Owner::CONFLICT, reserved: 0 };
    put(&mut datapath, "OWNERS", &X, owner);
    let value = json!({"uid": owner_json, "generation": 1, "since_ns": 2, "flags": 2, "reserved": 0});
    assert_eq!(dumped("OWNERS"), [json!({"key": x(), "value": value})]);

    let terminated = Terminated {
        dead_uid: owner.uid,
        proven_ns: 1,
        lifted_ns: 2,
        holder_ns: 3,
        confirmed_ns: 4,
        rate: RATE,
        mode: 1,
        action: 2,
    };
    put_keyed(&mut datapath, "TERMINATED", &X, terminated);
    let value = json!({"dead_uid": owner_json, "proven_ns": 1, "lifted_ns": 2, "holder_ns": 3, "confirmed_ns": 4,
        "rate": rate_json(),
        "mode": 1, "action": 2});
    assert_eq!(dumped("TERMINATED"), [keyed(&x(), &value)]);
    set(&mut datapath, "ANSWERS", ANSWERS);
    assert_eq!(dumped("ANSWERS"), [json!({"key": 0, "value": {"spent_until_ns": 7}})]);
    put_keyed(&mut datapath, "INTERFACES", &7_u32, RawRole::from(Role::Uplink));
    assert_eq!(dumped("INTERFACES"), [keyed(&json!(7), &json!({"number": 2}))]);

    let mac = Mac { octets: [2, 0, 0, 0, 0, 7], sends: 1, reserved: 0 };
    put(&mut datapath, "MACS", &7_u32, mac);
    let value = json!({"octets": [2, 0, 0, 0, 0, 7], "sends": 1, "reserved": 0});
    assert_eq!(dumped("MACS"), [json!({"key": 7, "value": value})]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_index_of_a_counter_is_32_times_its_reason_plus_its_outcome() {
    let mut datapath = kernel::load();
    let cpus = aya::util::nr_cpus().unwrap();
    let map = datapath.ebpf.map_mut("COUNTERS").unwrap();
    let mut counters: PerCpuArray<_, Count> = map.try_into().unwrap();
    let count = Count { packets: 3, bytes: 180, openings: 2 };
    let counts = PerCpuValues::try_from(vec![count; cpus]).unwrap();
    let index = counter(Reason::Reused, Outcome::Observed);
    counters.set(index, counts, 0).unwrap();
    let value = json!({"packets": 3, "bytes": 180, "openings": 2});
    let values: Vec<Value> = (0..cpus).map(|cpu| json!({"cpu": cpu, "value": value})).collect();
    let dumped = dumped("COUNTERS");
    assert_eq!(dumped[2 * 32 + 1], json!({"key": 65, "values": values}));
    assert_eq!(dumped.len(), capacity::COUNTERS);
}

/// What `bpftool -j map VERB pinned` prints of a map.
pub fn bpftool(verb: &str, map: &str) -> Value {
    let pin = maps::directory(Path::new(kernel::PIN_DIR)).join(map);
    let mut command = Command::new("bpftool");
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.args(["-j", "map", verb, "pinned"]).arg(pin);
    let output = command.output().expect("bpftool, which `cargo xtask setup` installs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "bpftool map {verb} {map}: {error}");
    serde_json::from_slice(&output.stdout).expect("JSON from bpftool")
}
