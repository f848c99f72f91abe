//! Which translator has a record of a packet.

/// The answer of the translators. As a number, since global functions return nothing else.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No translator has a record.
    Nothing = 0,
    /// conntrack's entry contradicts the packet.
    Unreadable = 1,
    /// The destination was not translated.
    Direct = 2,
    /// netfilter translated the destination. What the client asked for is known.
    Conntrack = 3,
    /// Cilium translated the packet. netfilter does not translate the replies, so such a flow is
    /// never redirected.
    Cilium = 4,
    /// A load balancer has connected the packet's socket, which knows the endpoint only. Such a
    /// flow is never redirected.
    Socket = 5,
    /// The packet is a reply.
    Reply = 6,
}

impl Found {
    /// Reads the number of a global function.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Unreadable,
            2 => Self::Direct,
            3 => Self::Conntrack,
            4 => Self::Cilium,
            5 => Self::Socket,
            6 => Self::Reply,
            _ => Self::Nothing,
        }
    }
}
