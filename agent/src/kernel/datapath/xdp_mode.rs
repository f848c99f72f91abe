//! Where an XDP program runs.

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, on the receive ring.
    Driver,
    /// In the network stack, on an skb that is made already.
    Generic,
}

impl XdpMode {
    /// The name in the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Generic => "generic",
        }
    }

    /// The flag of the mode: `XDP_FLAGS_DRV_MODE` or `XDP_FLAGS_SKB_MODE` of `linux/if_link.h`.
    pub(super) const fn flag(self) -> u32 {
        match self {
            Self::Driver => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}
