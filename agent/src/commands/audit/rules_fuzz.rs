//! Fuzzes rules, maps and elements of a dump of nftables.

use super::*;
use crate::fuzz::harness::{corpus, run};

#[test]
fn rules_of_nftables() {
    let words = &[
        "DNAT",
        "comment",
        "immediate",
        "meta",
        "cmp",
        "lookup",
        "nat",
        "numgen",
        "target",
        "match",
        "\0\0\0\u{8}",
    ];
    run("nftables", corpus("nftables"), words, |message| {
        let family = message.get(16).copied().unwrap_or_default();
        let attributes = message.get(20..).unwrap_or_default();
        let found = Found::of(Message {
            family,
            generation: 0,
            attributes,
        });
        if let Some((_, map)) = found.and_then(|found| found.map) {
            let _ = map.target(attributes);
        }
    });
}
