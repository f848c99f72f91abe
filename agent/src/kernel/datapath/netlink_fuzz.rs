//! Fuzzes datagrams about queueing disciplines, classes and filters, with the options of each kind.

use super::{Filter, Qdisc, class, read};
use crate::fuzz::harness::{corpus, run};

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

#[test]
fn traffic_control() {
    run("traffic-control", corpus("traffic-control"), KINDS, |datagram| {
        let mut answers = Vec::new();
        let _ = read(datagram, &mut answers);
        for answer in &answers {
            let _ = (Filter::of(answer), Qdisc::of(answer), class(answer));
        }
    });
}

#[test]
fn the_corpus_has_filters_qdiscs_and_a_class() {
    let mut answers = Vec::new();
    for datagram in corpus("traffic-control") {
        read(&datagram, &mut answers).unwrap();
    }
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
