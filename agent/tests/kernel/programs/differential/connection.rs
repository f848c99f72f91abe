//! The conntrack entry of the packets: of a connection to an endpoint, or one that contradicts
//! them.

use super::*;

impl Tables {
    /// Draws conntrack's entry of the packets: mostly of a connection to an endpoint that is
    /// denied.
    pub fn connect(&mut self, random: &mut Rng) {
        let host = random.choice(HOSTS.iter()).copied().expect("hosts");
        let port = random.choice(PORTS).expect("ports");
        let protocol = random.choice(TRANSPORTS).expect("transports");
        let (endpoint, port, protocol) = match random.choice(self.denied.keys()) {
            Some(key) if random.u8(..8) > 0 => (key.addr, key.port, key.protocol),
            _ => (host, port, protocol),
        };
        let client = if endpoint.is_v4() {
            Addr::v4([10, 9, 0, 7])
        } else {
            Addr::v6([0xfd; 16])
        };
        let vip = match random.u8(..10) {
            0 => (endpoint, port),
            1 => (client, port),
            2 => (vip(endpoint, port, protocol).addr, random.u16(..)),
            _ => (vip(endpoint, port, protocol).addr, port),
        };
        let mut tracked =
            Tracked::translated((client, CLIENT_PORT), vip, (endpoint, port), protocol);
        tracked = tracked.with_info(
            random
                .choice([0, 0, 0, 2, 2, 1, 1, 3, 4, 5, 7])
                .expect("infos"),
        );
        let other = Tracked::translated((client, CLIENT_PORT), vip, (host, port), protocol).entry;
        match random.u8(..20) {
            0 => tracked = Tracked::NONE,
            1 => tracked.entry.original.family = 0,
            2 => tracked.entry.original.family = 12 - tracked.entry.original.family,
            3 => tracked.entry.reply = other.reply,
            4 => tracked.entry.reply.protocol = random.u8(..),
            5 => tracked.entry.original.protocol = random.u8(..),
            _ => {}
        }
        self.connection = tracked;
    }

    /// Address, port and protocol of the connection's endpoint.
    pub fn endpoint(&self) -> Option<(Addr, u16, u8)> {
        let reply = &self.connection.entry.reply;
        let octets = reply.src.map(u32::to_ne_bytes).concat();
        let addr = match reply.family {
            2 => Addr::v4(*octets.first_chunk()?),
            _ => Addr::v6(*octets.first_chunk()?),
        };
        let is_some = self.connection != Tracked::NONE;
        is_some.then_some((addr, u16::from_be(reply.src_port), reply.protocol))
    }
}
