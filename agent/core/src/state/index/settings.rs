//! Settings that are fixed for the agent's life.

use crate::facts::Cidr;
use epguard_common::Addr;

/// Settings that are fixed for the agent's life.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The agent's own node.
    pub node: String,
    /// Whether the node's pod range belongs to it alone.
    pub ipam: Ipam,
    /// The ranges in which endpoints may be denied.
    pub ranges: Ranges,
}

/// How the cluster hands out pod IPs; the messages are for `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumMessage, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Ipam {
    /// The node's ranges count, unless pods show that others use them or that the node uses others: Calico, for one, leaves them set
    /// and hands out others.
    #[default]
    #[strum(message = "the node's ranges (spec.podCIDRs) count until a pod shows that they do not")]
    Auto,
    /// Each node hands out its own ranges.
    #[strum(message = "each node hands out its own podCIDRs")]
    Node,
    /// One pool.
    #[strum(message = "one pool for the cluster: any pod may get any IP")]
    Cluster,
}

/// The ranges of `--protect-cidr` and `--exclude-cidr`.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    /// Only endpoints inside one of these are denied; if none is given, all may be.
    pub protect: Vec<Cidr>,
    /// Endpoints inside one of these never are.
    pub exclude: Vec<Cidr>,
}

impl Ranges {
    /// True if an endpoint may be denied.
    pub fn cover(&self, ip: Addr) -> bool {
        let inside = |ranges: &[Cidr]| ranges.iter().any(|range| range.contains(ip));
        (self.protect.is_empty() || inside(&self.protect)) && !inside(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(protect: &[&str], exclude: &[&str]) -> Ranges {
        let parse = |texts: &[&str]| texts.iter().map(|text| Cidr::parse(text).unwrap()).collect();
        Ranges { protect: parse(protect), exclude: parse(exclude) }
    }

    #[test]
    fn an_excluded_range_comes_before_a_protected_one_and_other_ips_are_not_covered() {
        let (x, y) = (Addr::v4([10, 244, 1, 10]), Addr::v4([10, 244, 2, 10]));
        let covered = |ranges: Ranges| (ranges.cover(x), ranges.cover(y));
        assert_eq!(covered(ranges(&[], &[])), (true, true));
        assert_eq!(covered(ranges(&["10.244.1.0/24", "fd00::/8"], &[])), (true, false));
        assert_eq!(covered(ranges(&[], &["10.244.1.0/24"])), (false, true));
        assert_eq!(covered(ranges(&["10.244.0.0/16"], &["10.244.1.0/24"])), (false, true));
        assert_eq!(covered(ranges(&["fd00::/8"], &[])), (false, false));
    }
}
