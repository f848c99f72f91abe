//! What the API and the node have shown: pods, endpoints, Services, Nodes and Namespaces.
//!
//! `pods`, `endpoints`, `nodes`, `vips`, `selectors` and `stale_index` are its parts: none knows the
//! whole, which is `cluster_index`. Rules that need several parts stand above it, a file each:
//! `ended_pods`, `pods_on_nodes`, `compared_selectors`, `rival_vips`, `host_ports`, `ranges`,
//! `restore`. `apply` takes a fact through all of them.

mod addresses;
mod apply;
pub(crate) mod changed;
pub(crate) mod cluster_index;
mod compared_selectors;
mod ended_pods;
pub(crate) mod endpoints;
pub(crate) mod former;
mod host_ports;
mod incarnation;
pub(crate) mod listed_objects;
pub(crate) mod nodes;
pub(crate) mod pods;
mod pods_on_nodes;
pub(crate) mod quota;
mod range_owners;
pub(crate) mod ranges;
pub(crate) mod restore;
mod rival_vips;
mod selectors;
mod settings;
mod stale_index;
pub(crate) mod vips;

pub use cluster_index::ClusterIndex;
pub use settings::{Ipam, Ranges, Settings};

use std::num::NonZeroU64;
use std::time::Duration;

/// A time of the agent's clock in few octets: nanoseconds of a clock that only goes forward, plus
/// one: an `Option` of it has 8 octets, too. Enough for 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(NonZeroU64);

impl Default for Moment {
    fn default() -> Self {
        Self(NonZeroU64::MIN)
    }
}

impl From<Duration> for Moment {
    fn from(time: Duration) -> Self {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self(NonZeroU64::MIN.saturating_add(nanoseconds))
    }
}

impl From<Moment> for Duration {
    fn from(Moment(after): Moment) -> Self {
        Self::from_nanos(after.get() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Protocol, Service, ServicePort};
    use epguard_common::Addr;

    #[test]
    fn a_moment_is_the_time_that_it_was_made_of_and_the_first_is_zero() {
        for nanoseconds in [0, 1, 1_000_000_007] {
            let time = Duration::from_nanos(nanoseconds);
            assert_eq!(Duration::from(Moment::from(time)), time);
        }
        assert_eq!(Duration::from(Moment::default()), Duration::ZERO);
        assert_eq!(size_of::<Option<Moment>>(), 8);
    }

    #[test]
    fn after_a_start_over_a_node_answers_at_its_own_addresses_before_any_list_shows_its_node() {
        let (mut cluster, own) = (
            ClusterIndex::new(Settings::default()),
            Addr::v4([192, 0, 2, 1]),
        );
        cluster.set_local(vec![own]);
        cluster.start_over(Duration::ZERO);
        let ports = vec![ServicePort {
            port: 80,
            node_port: 30080,
            protocol: Protocol::Tcp,
        }];
        let service = Service {
            ports,
            ..Service::default()
        };
        let vips = cluster.unambiguous_vips(&service, false);
        assert!(vips.iter().any(|vip| vip.addr == own));
    }
}
