//! The IP ranges in which the operator allows denials.

use crate::facts::Cidr;
use epguard_common::Addr;

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
    #[must_use]
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
