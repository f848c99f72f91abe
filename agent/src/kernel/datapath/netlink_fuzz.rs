//! Fuzzes datagrams about queueing disciplines, classes and filters, with the options of each kind.

use super::{Filter, Qdisc, class};
use crate::fuzz::harness::{corpus, run};
use crate::node::netlink::request::messages;
use crate::node::netlink::route::parsed;
use rtnetlink::packet_route::RouteNetlinkMessage;

const KINDS: &[&str] = &[
    "bpf\0",
    "u32\0",
    "flower\0",
    "matchall\0",
    "basic\0",
    "clsact\0",
    "ingress\0",
    "fq_codel\0",
    "htb\0",
    "gred\0",
    "gact\0",
    "mirred\0",
    "\u{8}\0\u{1}\0",
    "\u{4}\0\u{2}\u{0}",
];

/// The messages of a datagram that can be read.
fn read(datagram: &[u8]) -> Vec<RouteNetlinkMessage> {
    let messages = messages(datagram).map_while(Result::ok);
    messages.filter_map(|message| parsed(&message).ok()).collect()
}

#[test]
fn traffic_control() {
    run("traffic-control", corpus("traffic-control"), KINDS, |datagram| {
        for answer in read(datagram) {
            let _ = (Filter::of(&answer), Qdisc::of(&answer), class(&answer));
        }
    });
}

#[test]
fn the_corpus_has_filters_qdiscs_and_a_class() {
    let datagrams = corpus("traffic-control");
    let answers: Vec<_> = datagrams.iter().flat_map(|datagram| read(datagram)).collect();
    let filters: Vec<Filter> = answers.iter().filter_map(Filter::of).collect();
    let mut classids: Vec<(&str, u32)> = filters
        .iter()
        .map(|filter| (filter.kind.as_str(), filter.classid))
        .collect();
    classids.sort_unstable();
    classids.dedup();
    assert_eq!(
        classids,
        [
            ("basic", 0),
            ("bpf", 0x1_0009),
            ("flower", 0x1_0006),
            ("matchall", 0x1_0005),
            ("u32", 0),
            ("u32", 0x1_0007),
            ("u32", 0x1_0010)
        ]
    );
    let kinds: Vec<String> = answers
        .iter()
        .filter_map(Qdisc::of)
        .map(|qdisc| qdisc.kind)
        .collect();
    for kind in ["clsact", "noqueue", "htb", "tbf"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
    }
    assert_eq!(answers.iter().filter_map(class).count(), 1);
}
