//! Packets that Cilium has translated, by the entries of its maps.

mod rig;

use super::*;
use rig::DENIED;
use rig::*;
use std::time::Duration;

/// Of the client and of the endpoint.
const PORTS: (u16, u16) = (CLIENT_PORT, PORT);

/// An entry for each connection to the denied Service.
fn record_all() {
    for (pod, protocol) in each() {
        number(pod, REVERSAL, PORT);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
    }
}

/// The same map with the option of Cilium that changes its flags.
fn with_other_flags(shape: Shape) -> Shape {
    let flags = match shape.kind {
        LRU => PER_CPU,
        _ => shape.flags ^ ON_DEMAND,
    };
    Shape { flags, ..shape }
}

impl Beside {
    /// The same of each connection.
    #[track_caller]
    fn expect_each(&mut self, name: &str, verdicts: Verdicts) {
        for (pod, protocol) in each() {
            self.expect(name, pod, protocol, verdicts);
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_that_cilium_has_translated_is_denied() {
    let mut beside = Beside::new();
    beside.expect_each("no entry", NO_RECORD);
    record_all();
    beside.expect_each("its entry", DENIED);
    beside.rig.write_view(FRESH);
    beside.expect("Cilium's maps are not read", REUSED, TCP, NO_RECORD);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_entry_that_cilium_made_for_a_client_outside_denies_nothing() {
    let mut beside = Beside::new();
    beside.enter_by(Role::Uplink);
    record_all();
    beside.expect_each("of a call to a node port before", NO_RECORD);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn entries_of_other_connections_deny_nothing() {
    let mut beside = Beside::new();
    for (pod, protocol) in each() {
        number(pod, REVERSAL, PORT);
        connect(pod, protocol, PORTS, IN, REVERSAL);
        connect(pod, protocol, PORTS, SERVICE, REVERSAL);
        connect(pod, protocol, (CLIENT_PORT + 1, PORT), OUT, REVERSAL);
        connect(pod, protocol, (CLIENT_PORT, OTHER_PORT), OUT, REVERSAL);
        connect(pod, protocol, (PORT, CLIENT_PORT), OUT, REVERSAL);
        connect(pod, protocol ^ TCP ^ UDP, PORTS, OUT, REVERSAL);
        beside.expect("another one's", pod, protocol, NO_RECORD);
        // The next protocol starts with its own maps.
        SHAPES[..4].iter().copied().for_each(pin);
        beside.follow(LATER);
        beside.follow(LATER * 2);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn connections_without_a_translation_pass() {
    let mut beside = Beside::new();
    for (pod, protocol) in each() {
        connect(pod, protocol, PORTS, OUT, 0);
        beside.expect("to the pod itself", pod, protocol, NO_RECORD);
        connect(pod, protocol, PORTS, OUT, REVERSAL.swap_bytes());
        beside.expect("an unknown number", pod, protocol, NO_RECORD);
        number(pod, REVERSAL, NO_PORT);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
        beside.expect("a port that is no Service's", pod, protocol, NO_SERVICE);
        number(pod, REVERSAL, PORT);
        beside.expect("the Service's", pod, protocol, DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn connections_in_a_replaced_map_are_denied_for_a_minute() {
    for replaced in [&SHAPES[..4], &SHAPES[4..6], &SHAPES[..6]] {
        let mut beside = Beside::new();
        record_all();
        replaced.iter().copied().for_each(pin);
        beside.follow(Duration::ZERO);
        beside.expect_each("in the map before", DENIED);
        beside.follow(LATER);
        beside.expect_each("forgotten", NO_RECORD);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_entry_in_the_pinned_map_is_newer_than_one_in_the_map_before() {
    let mut beside = Beside::new();
    record_all();
    SHAPES[..4].iter().copied().for_each(pin);
    beside.follow(Duration::ZERO);
    for (pod, protocol) in each() {
        connect(pod, protocol, PORTS, OUT, 0);
        beside.expect(
            "the port calls the pod itself now",
            pod,
            protocol,
            NO_RECORD,
        );
        connect(pod, protocol, PORTS, OUT, REVERSAL);
        beside.expect("and the Service again", pod, protocol, DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_number_that_two_maps_give_to_two_services_denies_nothing() {
    let mut beside = Beside::new();
    record_all();
    SHAPES[4..6].iter().copied().for_each(pin);
    beside.follow(Duration::ZERO);
    for (pod, protocol) in each() {
        number(pod, REVERSAL, NO_PORT);
        beside.expect("one of them is denied", pod, protocol, NO_RECORD);
        number(pod, REVERSAL, PORT);
        beside.expect("both are the same", pod, protocol, DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_moment_without_a_pin_loses_no_connection() {
    let mut beside = Beside::new();
    number(REUSED, REVERSAL, PORT);
    connect(REUSED, TCP, PORTS, OUT, REVERSAL);
    unpin("cilium_ct4_global");
    beside.follow(Duration::ZERO);
    beside.expect("unpinned", REUSED, TCP, DENIED);
    pin(SHAPES[0]);
    beside.follow(Duration::ZERO);
    beside.expect("replaced", REUSED, TCP, DENIED);
    for shape in SHAPES {
        unpin(shape.name);
    }
    beside.follow(LATER);
    beside.follow(LATER * 2);
    beside.expect("Cilium is gone", REUSED, TCP, NO_RECORD);
    assert_eq!(beside.names(), [""; 0]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn maps_of_each_flag_are_read_that_cilium_has_an_option_for() {
    let mut beside = Beside::with(&SHAPES.map(with_other_flags));
    record_all();
    beside.expect_each("other flags", DENIED);
    pin(Shape {
        flags: PER_CPU | RDONLY_PROG,
        ..SHAPES[0]
    });
    beside.follow(Duration::ZERO);
    assert_eq!(beside.problems().len(), 1);
    assert!(
        beside.problems()[0].contains("has flags that no Cilium"),
        "{:?}",
        beside.problems()
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn maps_that_get_other_flags_while_the_agent_runs_are_read_and_for_a_minute_those_before() {
    let other = SHAPES.map(with_other_flags);
    let mut beside = Beside::new();
    // Forth, back, and forth.
    for shapes in [other, SHAPES, other] {
        record_all();
        shapes.into_iter().for_each(pin);
        beside.follow(Duration::ZERO);
        beside.expect_each("in the map before", DENIED);
        record_all();
        beside.expect_each("in both", DENIED);
        beside.follow(LATER);
        beside.expect_each("in the pinned map", DENIED);
        for shape in SHAPES {
            unpin(shape.name);
        }
        beside.follow(LATER);
        beside.follow(LATER * 2);
        beside.expect_each("Cilium is gone", NO_RECORD);
        shapes.into_iter().for_each(pin);
        beside.follow(LATER * 2);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_map_of_an_unknown_shape_is_a_problem_and_is_not_read() {
    let mut beside = Beside::with(&[]);
    assert_eq!(beside.names(), [""; 0]);
    for shape in SHAPES {
        let name = shape.name;
        let of_other_type = match shape.kind {
            LRU => Shape {
                kind: HASH,
                flags: ON_DEMAND,
                ..shape
            },
            _ => Shape {
                kind: LRU,
                flags: 0,
                ..shape
            },
        };
        let longer_key = Shape {
            key_size: shape.key_size + 2,
            ..shape
        };
        let longer_value = Shape {
            value_size: shape.value_size + 8,
            ..shape
        };
        for wrong in [of_other_type, longer_key, longer_value] {
            pin(wrong);
            beside.follow(Duration::ZERO);
            assert!(!beside.names().contains(&name), "{wrong:?}");
            assert_eq!(beside.problems().len(), 1, "{wrong:?}");
            let problem = beside.problems()[0];
            assert!(
                problem.starts_with(globals().join(name).to_str().unwrap())
                    && problem.contains("has another shape than in Cilium 1.14 to 1.21"),
                "{problem}"
            );
        }
        pin(shape);
        beside.follow(Duration::ZERO);
        assert_eq!(beside.problems(), [""; 0]);
    }
    assert_eq!(beside.names(), SHAPES.map(|shape| shape.name));

    // Cilium's programs write the other map from now on.
    number(REUSED, REVERSAL, PORT);
    connect(REUSED, TCP, PORTS, OUT, REVERSAL);
    pin(Shape {
        value_size: 64,
        ..SHAPES[0]
    });
    beside.follow(Duration::ZERO);
    beside.expect("the map before it is out of date", REUSED, TCP, NO_RECORD);
    assert!(!beside.names().contains(&"cilium_ct4_global"));
}
