//! The two hooks of an interface, the two ways to hook it, and XDP before them at uplinks.

use aya_obj::generated::bpf_attach_type;

/// A hook of an interface, seen from the node's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// The ingress hook, where packets need one. TC ingress: packets entering, before DNAT.
    Ingress,
    /// The egress hook. TC egress: packets leaving, after DNAT.
    Egress,
}

impl Hook {
    /// Both hooks.
    pub const ALL: [Self; 2] = [Self::Ingress, Self::Egress];

    /// The name of the hook's program, and of its clsact filter.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Ingress => "epguard_from",
            Self::Egress => "epguard_to",
        }
    }

    /// The name of the hook in pins and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "from",
            Self::Egress => "to",
        }
    }

    /// The attach type of the hook's TCX link, Linux 6.6.
    pub const fn attach_type(self) -> bpf_attach_type {
        match self {
            Self::Ingress => bpf_attach_type::BPF_TCX_INGRESS,
            Self::Egress => bpf_attach_type::BPF_TCX_EGRESS,
        }
    }
}

/// How `epguard agent --hooks` attaches to interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Hooks {
    /// tcx where the kernel has it, else clsact
    #[default]
    Auto,
    /// TCX links, Linux 6.6: before all other programs
    Tcx,
    /// Filters of the clsact qdisc, for older kernels
    Clsact,
}

/// How `epguard agent --xdp` attaches to uplinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Xdp {
    /// In the driver where hardware has it, shows VLAN tags and runs no other XDP program;
    /// elsewhere TC alone
    Auto,
    /// In the driver of every uplink, or the agent ends; only for uplinks without VLANs: their tags
    /// may be hidden
    Driver,
    /// TC alone: some drivers, `virtio_net` among them, lose offloads for all traffic while an XDP
    /// program is attached
    #[default]
    Off,
}

impl Xdp {
    /// Whether the agent ends if XDP cannot be attached.
    pub const fn is_demanded(self) -> bool {
        matches!(self, Self::Driver)
    }
}
