//! Fuzzes datagrams about queueing disciplines and filters, with the options of each kind.

use super::clsact::{TcFilter, qdisc};
use crate::node::netlink::request::messages;
use crate::node::netlink::route::parsed;
use epguard_fuzz::{corpus, run, words};
use rtnetlink::packet_route::RouteNetlinkMessage;

const KINDS: &str = "bpf\0 u32\0 flower\0 matchall\0 basic\0 clsact\0 ingress\0 fq_codel\0 htb\0 gred\0 gact\0 mirred\0 \
    \u{8}\0\u{1}\0 \u{4}\0\u{2}\u{0}";

/// The messages of a datagram that can be read.
fn read_messages(datagram: &[u8]) -> Vec<RouteNetlinkMessage> {
    let messages = messages(datagram).map_while(Result::ok);
    messages
        .filter_map(|message| parsed(&message).ok())
        .collect()
}

#[test]
fn traffic_control() {
    run(
        "traffic-control",
        corpus("traffic-control"),
        &words(KINDS),
        |datagram| {
            for answer in read_messages(datagram) {
                let _ = (TcFilter::from_answer(&answer), qdisc(&answer));
            }
        },
    );
}

#[test]
fn the_corpus_has_filters_and_qdiscs() {
    let datagrams = corpus("traffic-control");
    let answers: Vec<_> = datagrams
        .iter()
        .flat_map(|datagram| read_messages(datagram))
        .collect();
    let filters: Vec<TcFilter> = answers.iter().filter_map(TcFilter::from_answer).collect();
    let mut kinds: Vec<&str> = filters.iter().map(|filter| filter.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["basic", "bpf", "flower", "matchall", "u32"]);
    let kinds: Vec<&str> = answers
        .iter()
        .filter_map(qdisc)
        .map(|(_, kind)| kind)
        .collect();
    for kind in ["clsact", "noqueue", "htb", "tbf"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
}
