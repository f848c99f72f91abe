//! The map of senders, as bpftool shows it.

use super::kernel;
use super::layout::{SLOT, X, dumped, put, x};
use epguard_common::{Aimed, Sender};
use serde_json::json;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn bpftool_names_every_field_of_the_senders() {
    let mut datapath = kernel::load();
    let sender = Sender {
        addr: X,
        port: 40_000,
        protocol: 6,
        reserved: 0,
    };
    let aimed = Aimed {
        at_ns: 1,
        slot: SLOT,
        reserved: [0; 3],
    };
    put(&mut datapath, "AIMED", &sender, aimed);
    let key = json!({"addr": x(), "port": 40_000, "protocol": 6, "reserved": 0});
    let value = json!({"at_ns": 1, "slot": {"number": 0x8001}, "reserved": [0, 0, 0]});
    assert_eq!(dumped("AIMED"), [json!({"key": key, "value": value})]);
}
