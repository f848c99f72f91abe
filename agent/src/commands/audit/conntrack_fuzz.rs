//! Fuzzes entries of a conntrack dump.

use super::*;
use epguard_fuzz::{corpus, run};

#[test]
fn conntrack_entries() {
    run(
        "conntrack",
        corpus("conntrack"),
        &["\u{8}\0\u{1}\0", "\u{4}\0\u{1}\u{0}"],
        |message| {
            // Behind the headers of netlink and nfnetlink.
            let entry = message.get(20..).unwrap_or_default();
            let _ = parse_flow(entry);
        },
    );
}
