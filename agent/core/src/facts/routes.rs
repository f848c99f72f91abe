//! The node's routes to parts of its own ranges: somebody holds these addresses, or they were
//! announced elsewhere.

use super::cidr::Cidr;
use epguard_common::Addr;
use std::cmp::Reverse;

/// Routes of this node that lead to parts of some ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    ranges: Vec<Cidr>,
    /// Ascending; none lies in another one.
    parts: Vec<Cidr>,
}

impl Routes {
    /// Keeps what is narrower than a range and lies in it.
    pub fn new(ranges: &[Cidr], routes: impl IntoIterator<Item = Cidr>) -> Self {
        let mut all = Self {
            ranges: ranges.to_vec(),
            parts: Vec::new(),
        };
        all.add(routes);
        all
    }

    /// Adds routes, as [`Routes::new`].
    pub fn add(&mut self, routes: impl IntoIterator<Item = Cidr>) {
        for route in routes {
            let mut ranges = self.ranges.iter();
            if ranges.any(|range| *range != route && range.covers(route)) {
                self.parts.push(route);
            }
        }
        self.parts
            .sort_unstable_by_key(|part| (part.first, Reverse(part.last)));
        self.parts.dedup_by(|later, earlier| earlier.covers(*later));
    }

    /// The parts of the ranges that the routes lead to.
    pub fn parts(&self) -> &[Cidr] {
        &self.parts
    }

    /// Whether a route leads to the address, or may: routes to addresses outside of the ranges are
    /// not kept.
    pub fn may_lead_to(&self, ip: Addr) -> bool {
        if !self.ranges.iter().any(|range| range.contains(ip)) {
            return true;
        }
        let after = self.parts.partition_point(|part| part.first <= ip);
        self.parts[..after]
            .last()
            .is_some_and(|part| part.contains(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidrs(texts: &[&str]) -> Vec<Cidr> {
        texts
            .iter()
            .map(|text| Cidr::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn only_routes_that_are_narrower_than_a_range_lead_to_its_addresses() {
        let ranges = cidrs(&["10.244.1.0/24", "fd00:1::/64"]);
        let routes = cidrs(&[
            "0.0.0.0/0",
            "10.244.0.0/16",
            "10.244.1.0/24",
            "10.244.1.64/26",
            "10.244.1.70/32",
            "10.244.1.10/32",
            "10.244.2.10/32",
            "fd00:1::7/128",
        ]);
        let routes = Routes::new(&ranges, routes);
        assert_eq!(
            routes.parts(),
            cidrs(&["10.244.1.10/32", "10.244.1.64/26", "fd00:1::7/128"])
        );
        let may = |text: &str| routes.may_lead_to(text.parse::<std::net::IpAddr>().unwrap().into());
        for (ip, expected) in [
            ("10.244.1.10", true),
            ("10.244.1.11", false),
            ("10.244.1.63", false),
            ("10.244.1.64", true),
            ("10.244.1.127", true),
            ("10.244.1.128", false),
            ("10.244.2.11", true),
            ("fd00:1::7", true),
            ("fd00:1::8", false),
            ("fd00:2::8", true),
        ] {
            assert_eq!(may(ip), expected, "{ip}");
        }
    }

    #[test]
    fn nothing_is_known_of_any_address_without_a_range() {
        assert!(Routes::default().may_lead_to(Addr::v4([10, 244, 1, 10])));
    }
}
