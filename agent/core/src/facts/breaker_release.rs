//! Which stopped denials an operator releases.

use super::object_name::ObjectName;
use std::fmt;

/// A release of stopped denials. It ends by itself: a denial that is stopped later has seen more of
/// the cluster, so its resourceVersion is higher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerRelease {
    /// Only denials that were stopped when their agent had seen no newer resourceVersion than this.
    pub until: u64,
    /// Only those of these Services; empty: of all.
    pub services: Vec<ObjectName>,
}

impl BreakerRelease {
    /// Everything that is stopped now, of a Service or of all.
    pub fn of_all_stopped(service: Option<&ObjectName>) -> Self {
        Self {
            until: u64::MAX,
            services: service.into_iter().cloned().collect(),
        }
    }

    /// Reads `RESOURCEVERSION [NAMESPACE/NAME ...]`; none if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let until = words.next()?.parse().ok()?;
        let mut services = Vec::new();
        for word in words {
            services.push(ObjectName::parse(word)?);
        }
        Some(Self { until, services })
    }

    /// True if it is about the Service.
    pub fn names(&self, service: &ObjectName) -> bool {
        self.services.is_empty() || self.services.contains(service)
    }
}

/// As [`BreakerRelease::parse`] reads it.
impl fmt::Display for BreakerRelease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.until)?;
        for service in &self.services {
            write!(formatter, " {service}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_written_as_it_is_read() {
        for text in ["12", "12 shop/web", "12 shop/web team-a/db"] {
            let release = BreakerRelease::parse(text).unwrap();
            assert_eq!(release.to_string(), text);
        }
        let of_one = BreakerRelease::parse(" 7  shop/web\n").unwrap();
        assert_eq!((of_one.until, of_one.services.len()), (7, 1));
        assert!(of_one.names(&ObjectName::new("shop", "web")));
        assert!(!of_one.names(&ObjectName::new("shop", "cart")));
    }

    #[test]
    fn a_release_without_a_version_or_with_half_a_name_releases_nothing() {
        for text in [
            "",
            "shop/web",
            "-1",
            "1.5",
            "12 web",
            "12 shop/",
            "12,shop/web",
            "12 a/b/c",
        ] {
            assert_eq!(BreakerRelease::parse(text), None, "{text:?}");
        }
    }
}
