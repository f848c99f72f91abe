//! One packet to one suspect with one denial. Each test changes what it is about.

use crate::{
    Action, ActionModel, Addr, Bytes, CallModel, DenialKey, EgressModel, Intent, Mode, Model,
    Packet, Proof, Reason, ServiceNumber, Suspect, TerminatedModel, Transport, UidState, Verdict,
};

/// The suspect.
pub const X: Addr = Addr::v4([10, 244, 1, 10]);
/// What is denied.
pub const SHOP: DenialKey = DenialKey::new(X, ServiceNumber { number: 1 }, 8080, 6);
pub const SYN: Packet = Packet {
    src: Addr::v4([10, 244, 2, 2]),
    dst: X,
    src_port: 40_000,
    dst_port: 8080,
    protocol: 6,
    transport: Transport::Opening,
    network_at: 0,
    transport_at: 20,
};
/// Of a connection that is open.
pub const ACK: Packet = Packet {
    transport: Transport::Ports,
    ..SYN
};

pub const DENIED: Verdict = Verdict::Deny {
    reason: Reason::Reused,
    enforce: true,
};
pub const OBSERVED: Verdict = Verdict::Deny {
    reason: Reason::Reused,
    enforce: false,
};

/// An IPv4 packet's first 40 octets: IP flags at 6, TCP flags at 33.
#[derive(Clone, Copy)]
pub struct Octets {
    pub fragmentation: u8,
    pub tcp_flags: u8,
}

impl Bytes for Octets {
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let mut octets = [0; 40];
        octets[6] = self.fragmentation;
        octets[33] = self.tcp_flags;
        let at = usize::try_from(offset).ok()?;
        octets.get(at..at + N)?.try_into().ok()
    }

    fn words<const N: usize>(&self, _: u32) -> Option<[u32; N]> {
        None
    }
}

/// What the programs look up of the packet.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "one for each condition")]
pub struct Node {
    pub flags: u32,
    pub intent: Intent,
    pub proof: Option<Proof>,
    pub mode: Mode,
    pub of_reason: Mode,
    pub fresh: bool,
    pub octets: Octets,
    pub own: Action,
    pub configured: Action,
    pub backend: bool,
    pub live: bool,
    pub route: bool,
    pub to_many: bool,
    pub room: bool,
    pub way: bool,
    pub redirected: bool,
    pub copy: bool,
    /// Whether the packets of a call are judged.
    pub judged: bool,
    /// Whether an orphan IP was lifted, and its bound; whether the packet leaves the node.
    pub lifted: Option<bool>,
    pub bound: Mode,
    pub leaves: bool,
    /// Whether the node has routed the packet, and its way to an orphan IP is that of the range.
    pub routed: bool,
    pub follows: bool,
}

pub const PROOF: Proof = Proof {
    reason: Reason::Reused,
    uid_state: UidState::Dead,
    mode: Mode::Enforce,
    stopped: false,
};

/// The denial is in force, and every action is possible.
pub const DENYING: Node = Node {
    flags: Suspect::DENIED,
    intent: Intent::Endpoint(SHOP),
    proof: Some(PROOF),
    mode: Mode::Enforce,
    of_reason: Mode::Enforce,
    fresh: true,
    octets: Octets {
        fragmentation: 0x40,
        tcp_flags: 0x02,
    },
    own: Action::Reject,
    configured: Action::Unset,
    backend: true,
    live: true,
    route: true,
    to_many: false,
    room: true,
    way: true,
    redirected: false,
    copy: false,
    judged: true,
    lifted: Some(false),
    bound: Mode::Enforce,
    leaves: true,
    routed: true,
    follows: true,
};

/// [`DENYING`] after a change.
pub fn denying_but(change: impl FnOnce(&mut Node)) -> Node {
    let mut node = DENYING;
    change(&mut node);
    node
}

/// Methods that show a field.
macro_rules! fields {
    ($($method:ident: $type:ty = $field:ident;)*) => {$(
        fn $method(&self) -> $type {
            self.$field
        }
    )*};
}

impl Model for Node {
    fields! {
        mode: Mode = mode;
        lease_is_valid: bool = fresh;
    }
    fn suspect(&self, addr: &Addr) -> Option<u32> {
        (*addr == X).then_some(self.flags)
    }
    fn intent(&self, _: &Packet) -> Intent {
        self.intent
    }
    fn denial(&self, key: &DenialKey) -> Option<Proof> {
        if *key == SHOP { self.proof } else { None }
    }
    fn mode_of(&self, _: Reason) -> Mode {
        self.of_reason
    }
}

impl ActionModel for Node {
    type Octets = Octets;

    fields! {
        own_action: Action = own;
        is_backend_live: bool = live;
        is_to_many: bool = to_many;
        has_room: bool = room;
        has_way: bool = way;
    }
    fn octets(&self) -> &Octets {
        &self.octets
    }
    fn configured_action(&self, reason: Reason) -> Action {
        assert_eq!(reason, Reason::Reused);
        self.configured
    }
    fn has_route_to_backend(&self, _: &Packet) -> bool {
        self.route
    }
    fn choose_backend(&self, _: &Packet) -> bool {
        self.backend
    }
}

impl EgressModel for Node {
    fields! { is_copy: bool = copy; }
    fn is_redirected(&self, _: &Packet) -> bool {
        self.redirected
    }
}

impl CallModel for Node {
    fields! {
        own_action: Action = own;
        packets_are_judged: bool = judged;
    }
    fn configured_action(&self, _: Reason) -> Action {
        self.configured
    }
    fn has_backend(&self, _: &Packet) -> bool {
        self.backend
    }
}

impl TerminatedModel for Node {
    fields! {
        mode: Mode = mode;
        mode_of_reason: Mode = of_reason;
        bound: Mode = bound;
        lease_is_valid: bool = fresh;
    }
    fn lifted(&self, addr: &Addr) -> Option<bool> {
        if *addr == X { self.lifted } else { None }
    }
    fn leaves(&self, _: &Packet) -> bool {
        self.leaves
    }
    fn is_routed(&self) -> bool {
        self.routed
    }
    fn follows_range(&self) -> bool {
        self.follows
    }
}
