//! The cluster IPs that a Service gets when a client creates it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::object::{cluster_ips, non_empty};

/// The last number of an IP.
const LAST: u16 = 0x7ffe;

/// Gives a new Service IPs that no other one has: the first free ones behind 10.96.128.0 and a
/// number, and where it wants both families behind `fd00:10:96::8000`. Headless and `ExternalName`
/// Services get none.
///
/// A number that rises makes it unlikely, as in a real cluster, that a Service soon gets the IP of
/// one that is gone.
pub(super) fn assign(service: &mut Value, others: &[Value], after: u64) {
    let spec = &service["spec"];
    if non_empty(&spec["clusterIP"]).is_some() || spec["type"] == "ExternalName" {
        return;
    }
    let policy = spec["ipFamilyPolicy"].as_str();
    let policy = policy.unwrap_or("SingleStack").to_owned();
    let is_dual = policy != "SingleStack";
    let taken: BTreeSet<IpAddr> = others.iter().flat_map(cluster_ips).collect();
    let from = u16::try_from(after % u64::from(LAST)).unwrap_or_default();
    let mut numbers = (from + 1..=LAST).chain(1..=from);
    let free = numbers.find(|number| !taken.contains(&v4(*number)));
    let number = free.unwrap_or_default();
    let mut ips = vec![v4(number)];
    let mut families = vec!["IPv4"];
    if is_dual {
        ips.push(v6(number));
        families.push("IPv6");
    }
    service["spec"]["clusterIP"] = json!(ips[0]);
    service["spec"]["clusterIPs"] = json!(ips);
    service["spec"]["ipFamilies"] = json!(families);
    service["spec"]["ipFamilyPolicy"] = policy.into();
}

fn v4(number: u16) -> IpAddr {
    let [high, low] = (0x8000 | number).to_be_bytes();
    [10, 96, high, low].into()
}

fn v6(number: u16) -> IpAddr {
    [0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0x8000 | number].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_service_gets_free_addresses_of_the_families_that_it_wants() {
        let created = |spec: Value, others: &[Value]| {
            let mut service = json!({"spec": spec});
            assign(&mut service, others, 0);
            cluster_ips(&service)
                .iter()
                .map(IpAddr::to_string)
                .collect::<Vec<_>>()
        };
        let first = json!({"spec": {"clusterIP": "10.96.128.1", "clusterIPs": ["10.96.128.1"]}});
        let dual = json!({"ipFamilyPolicy": "PreferDualStack"});
        assert_eq!(created(json!({}), &[]), ["10.96.128.1"]);
        assert_eq!(created(dual, &[first]), ["10.96.128.2", "fd00:10:96::8002"]);
        let mut later = json!({"spec": {}});
        assign(&mut later, &[], 0x7ffe + 7);
        assert_eq!(later["spec"]["clusterIP"], "10.96.128.8");
        assert_eq!(created(json!({"clusterIP": "None"}), &[]), [""; 0]);
        assert_eq!(
            created(json!({"clusterIP": "10.96.0.9"}), &[]),
            ["10.96.0.9"]
        );
        assert_eq!(created(json!({"type": "ExternalName"}), &[]), [""; 0]);
    }
}
