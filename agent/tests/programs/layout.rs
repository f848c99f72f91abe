//! What a person sees with plain bpftool.

use crate::frames::x4;
use crate::kernel::Kernel;
use epguard_common::{Reason, UidState, capacity};
use serde_json::Value;
use std::process::Command;

fn bpftool(kernel: &Kernel, verb: &str, map: &str) -> Value {
    let output = Command::new("bpftool")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(["-j", "map", verb, "pinned"])
        .arg(kernel.pins().join(map))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{map}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The entry as bpftool prints it with BTF.
fn first(kernel: &Kernel, map: &str) -> Value {
    let dump = bpftool(kernel, "dump", map);
    let entry = &dump[0];
    if entry["formatted"].is_null() {
        entry.clone()
    } else {
        entry["formatted"].clone()
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn every_map_is_dumped_with_field_names() {
    let kernel = Kernel::denying(x4(), Reason::Reused, UidState::Dead);
    let config = first(&kernel, "CONFIG");
    assert_eq!(config["value"]["mode"], "Enforce");
    assert_eq!(config["value"]["reasons"]["retired_backend"], "Enforce");
    assert_eq!(config["value"]["action"], "Drop");
    assert_eq!(first(&kernel, "VIEW")["value"]["suspects"], 1);
    assert_eq!(first(&kernel, "SUSPECTS")["key"]["octets"][15], 10);
    assert_eq!(first(&kernel, "SUSPECTS")["value"]["flags"], 1);
    let service = first(&kernel, "SERVICES");
    assert_eq!(
        (&service["key"]["port"], &service["value"]["number"]),
        (&8080.into(), &0x8001.into())
    );
    let denied = first(&kernel, "DENIED");
    assert_eq!(denied["key"]["slot"]["number"], 0x8001);
    assert_eq!(denied["value"]["reason"], "Reused");
    assert_eq!(denied["value"]["uid_state"], "Dead");
    assert_eq!(denied["value"]["dead_uid"]["octets"][0], 0xdd);
    let counters = bpftool(&kernel, "dump", "COUNTERS").to_string();
    assert!(
        counters.contains("LeaseExpired") && counters.contains("DeadBackend"),
        "{counters}"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn maps_have_their_stated_sizes_and_stay_within_20_megabytes() {
    let kernel = Kernel::new();
    let sizes = [
        ("OWNERS", capacity::OWNERS),
        ("SUSPECTS", capacity::SUSPECTS),
        ("SERVICES", capacity::SERVICES),
        ("DENIED", capacity::DENIED),
        ("SOCKETS", capacity::SOCKETS),
        ("CONFIG", 1),
        ("VIEW", 1),
        ("COUNTERS", capacity::COUNTERS),
        ("EVENTS", capacity::EVENTS),
    ];
    let mut memory = 0;
    for (map, entries) in sizes {
        let shown = bpftool(&kernel, "show", map);
        assert_eq!(shown["max_entries"], entries, "{map}");
        let bytes = shown["bytes_memlock"]
            .as_u64()
            .or_else(|| shown["bytes_memlock"].as_str()?.parse().ok());
        println!("{map}: {} bytes", bytes.unwrap());
        // An on-demand map is charged for what it could hold.
        memory += if map == "OWNERS" { 0 } else { bytes.unwrap() };
    }
    println!("all but OWNERS: {memory} bytes");
    assert!(memory < 20 << 20, "{memory} bytes");
}
