//! Messages of rtnetlink about links, addresses, routes, neighbours and qdiscs.

use super::evidence::{defaults, destination};
use super::interface::Interface;
use epguard_fuzz::{corpus, run};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage as Message;

#[test]
fn messages_of_rtnetlink() {
    run(
        "rtnetlink",
        corpus("rtnetlink"),
        &["eth0", "veth", "bridge", "clsact", "\u{8}\0\u{1}\0"],
        |octets| {
            let Ok(message) = NetlinkMessage::<Message>::deserialize(octets) else {
                return;
            };
            let NetlinkPayload::InnerMessage(message) = message.payload else {
                return;
            };
            match message {
                Message::NewLink(link) => drop(Interface::from(link)),
                Message::NewRoute(route) => drop((destination(&route), defaults(&route))),
                _ => {}
            }
        },
    );
}
