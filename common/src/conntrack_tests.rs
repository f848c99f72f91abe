//! One packet to one endpoint, and the entry that the kernel has of its connection.

use super::*;
use crate::protocol::TCP;
use crate::testing::SYN;

const CLIENT: [u8; 4] = [10, 244, 2, 7];
const VIP: [u8; 4] = [10, 96, 0, 9];
const POD: [u8; 4] = [10, 244, 1, 10];
const NODE: [u8; 4] = [172, 18, 0, 2];
/// `IP_CT_ESTABLISHED` and those that follow.
const ESTABLISHED: u64 = 0;
const RELATED: u64 = 1;
const NEW: u64 = 2;

const fn words(octets: [u8; 4]) -> [u32; 4] {
    [u32::from_ne_bytes(octets), 0, 0, 0]
}

const fn tuple(src: [u8; 4], src_port: u16, dst: [u8; 4], dst_port: u16, direction: u8) -> Tuple {
    Tuple {
        src: words(src),
        src_port: src_port.to_be(),
        family: AF_INET,
        dst: words(dst),
        dst_port: dst_port.to_be(),
        protocol: TCP,
        direction,
    }
}

/// A client's connection to a Service, translated to the pod and masqueraded as the node.
const ENTRY: Entry = Entry {
    original: tuple(CLIENT, 40_000, VIP, 80, 0),
    between: [0; 2],
    reply: tuple(POD, 8080, NODE, 50_000, 1),
};

const PACKET: Packet = Packet {
    src: Addr::v4(NODE),
    dst: Addr::v4(POD),
    src_port: 50_000,
    ..SYN
};

const MEANT: Record = Record::Translated(Meant {
    vip: Vip {
        addr: Addr::v4(VIP),
        port: 80,
        protocol: TCP,
        reserved: 0,
    },
    client: Addr::v4(CLIENT),
    client_port: 40_000,
    endpoint_port: 8080,
});

fn read(info: u64, entry: Entry, packet: Packet) -> Record {
    entry.read(Reference(0xffff_8881_0000_0000 | info), &packet)
}

#[test]
fn an_entry_shows_the_service_and_the_client_before_masquerade() {
    for info in [NEW, ESTABLISHED, RELATED] {
        assert_eq!(read(info, ENTRY, PACKET), MEANT, "{info}");
    }
}

#[test]
fn a_reply_is_one_and_a_packet_that_was_not_translated_is_direct() {
    let asked = |addr, port, client, client_port, endpoint_port| {
        let vip = Vip {
            addr: Addr::v4(addr),
            port,
            protocol: TCP,
            reserved: 0,
        };
        Record::Direct(Meant {
            vip,
            client: Addr::v4(client),
            client_port,
            endpoint_port,
        })
    };
    for info in [3, 4, 5, 7] {
        assert_eq!(read(info, ENTRY, PACKET), Record::Reply, "{info}");
    }
    let direct = Entry {
        original: tuple(CLIENT, 40_000, POD, 8080, 0),
        ..ENTRY
    };
    assert_eq!(
        read(NEW, direct, PACKET),
        asked(POD, 8080, CLIENT, 40_000, 8080)
    );
    let ping = Packet {
        protocol: ICMP,
        transport: Transport::Other,
        ..PACKET
    };
    let mut echo = ENTRY;
    (echo.original.protocol, echo.reply.protocol) = (ICMP, ICMP);
    assert!(matches!(read(NEW, echo, ping), Record::Direct(_)));
}

#[test]
fn a_template_is_no_entry_and_an_untracked_packet_has_none() {
    assert_eq!(read(NEW, Entry::default(), PACKET), Record::None);
    for reference in [0, 7] {
        assert_eq!(Reference(reference).address(), None, "{reference}");
    }
    assert_eq!(Reference(0x1002).address(), Some(0x1000));
}

#[test]
fn an_entry_that_contradicts_the_packet_is_unreadable() {
    type Change = fn(&mut Entry, &mut Packet);
    let table: [(&str, Change); 7] = [
        ("another protocol", |_, packet| packet.protocol = 17),
        ("another protocol of the replies", |entry, _| {
            entry.reply.protocol = 17;
        }),
        ("another family", |entry, _| {
            entry.original.family = AF_INET6;
        }),
        ("another family of the replies", |entry, _| {
            entry.reply.family = AF_INET6;
        }),
        ("replies of another pod", |entry, _| {
            entry.reply.src = words([10, 244, 1, 11]);
        }),
        ("replies of another port", |entry, _| {
            entry.reply.src_port = 9090_u16.to_be();
        }),
        ("a packet of IPv6", |_, packet| packet.dst = v6(1)),
    ];
    for (name, change) in table {
        let (mut entry, mut packet) = (ENTRY, PACKET);
        change(&mut entry, &mut packet);
        assert_eq!(
            read(ESTABLISHED, entry, packet),
            Record::Unreadable,
            "{name}"
        );
    }
}

#[test]
fn a_later_fragment_and_an_icmp_error_belong_to_a_connection() {
    let fragment = Packet {
        src_port: 0,
        dst_port: 0,
        transport: Transport::Fragment,
        ..PACKET
    };
    let error = Packet {
        protocol: ICMP,
        transport: Transport::Other,
        ..fragment
    };
    for (name, info, packet, record) in [
        (
            "a later fragment has the port of its connection",
            ESTABLISHED,
            fragment,
            MEANT,
        ),
        (
            "an error belongs to the connection that it quotes",
            RELATED,
            error,
            MEANT,
        ),
        (
            "only a related packet may have another protocol",
            NEW,
            error,
            Record::Unreadable,
        ),
        (
            "only ICMP quotes packets",
            RELATED,
            Packet {
                protocol: 17,
                ..error
            },
            Record::Unreadable,
        ),
        (
            "an error to the client is a reply",
            RELATED,
            Packet {
                dst: Addr::v4(CLIENT),
                ..error
            },
            Record::Unreadable,
        ),
    ] {
        assert_eq!(read(info, ENTRY, packet), record, "{name}");
    }
}

const fn v6(last: u8) -> Addr {
    Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

fn of_ipv6() -> (Entry, Packet) {
    let mut entry = ENTRY;
    for (tuple, [src, dst]) in [(&mut entry.original, [1, 2]), (&mut entry.reply, [3, 1])] {
        (tuple.family, tuple.src, tuple.dst) = (AF_INET6, v6(src).words(), v6(dst).words());
    }
    let (src, dst) = (v6(1), v6(3));
    (entry, Packet { src, dst, ..PACKET })
}

#[test]
fn entries_of_ipv6_are_read_alike() {
    let (entry, packet) = of_ipv6();
    let Record::Translated(meant) = read(NEW, entry, packet) else {
        panic!("{:?}", read(NEW, entry, packet))
    };
    assert_eq!((meant.vip.addr, meant.client), (v6(2), v6(1)));
    let error = Packet {
        protocol: ICMPV6,
        transport: Transport::Other,
        ..packet
    };
    assert!(matches!(read(RELATED, entry, error), Record::Translated(_)));
}

#[test]
fn a_later_fragment_of_ipv6_may_show_another_header_in_place_of_its_protocol() {
    const OPTIONS: u8 = 60;
    let (entry, packet) = of_ipv6();
    let fragment = |protocol| Packet {
        protocol,
        transport: Transport::Fragment,
        src_port: 0,
        dst_port: 0,
        ..packet
    };
    assert!(matches!(
        read(NEW, entry, fragment(OPTIONS)),
        Record::Translated(_)
    ));
    assert_eq!(read(NEW, entry, fragment(17)), Record::Unreadable);
    let of_ipv4 = Packet {
        transport: Transport::Fragment,
        protocol: OPTIONS,
        ..PACKET
    };
    assert_eq!(
        read(NEW, ENTRY, of_ipv4),
        Record::Unreadable,
        "no extension header"
    );
}
