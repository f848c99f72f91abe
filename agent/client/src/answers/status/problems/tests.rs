//! Each condition of the table, and what it finds.

use super::*;
use crate::shared::status::testing::ailing;
use crate::shared::status::{Attachment, SocketLb, Watch};
use epguard_core::facts::Watched;
use epguard_core::state::IpState;
use strum::VariantArray as _;

fn well() -> Status {
    let watch = Watch {
        up: true,
        ..Watch::default()
    };
    Status {
        synced: true,
        lease_ms: 9000,
        interfaces: vec![Attachment {
            waiting: true,
            ..Attachment::default()
        }],
        watches: [(Watched::Pods, watch)].into(),
        ..Status::default()
    }
}

fn whats(status: &Status) -> Vec<String> {
    problems(status)
        .into_iter()
        .map(|problem| problem.what)
        .collect()
}

#[test]
fn a_lease_that_ended_matters_only_while_something_is_denied() {
    let mut status = well();
    status.lease_ms = -1;
    assert_eq!(problems(&status), []);
    status.figures.ips.insert(IpState::Denied, 1);
    status.view_age_ms = Some(31_000);
    assert_eq!(
        whats(&status),
        ["the lease has ended (age of the view: 31 s), so denied packets pass"]
    );
}

#[test]
fn a_lease_without_a_proven_view_names_the_watches_that_are_not_proven() {
    let mut status = well();
    status.lease_ms = -1;
    status.figures.ips.insert(IpState::Denied, 1);
    let unproven = status.watches[&Watched::Pods].clone();
    status.watches.insert(Watched::Namespaces, unproven);
    assert_eq!(
        whats(&status),
        ["the lease has ended (not proven fresh: watch pods), so denied packets pass"]
    );
}

#[test]
fn all_problems_are_listed_the_worst_first() {
    let finished = "7 pods finished on n1, n2, n3 and 1 more and none is proven dead there";
    let expected = [
        "not every watch has shown a list yet, so there are no new denials",
        "watch pods is down: 403 Forbidden",
        "ConfigMap epguard/epguard was not read yet",
        "veth1 (pod) has no hooks, so nothing is denied there: not attached yet",
        "cil_from_netdev runs before epguard on eth0",
        "3 denials did not fit into a map, those packets pass (namespace flood: 2, shop: 1)",
        "map DENIED is nearly full: 81 of 100",
        "reused is only observed, because a denial was wrong (1 since the start)",
        "4 denials of shop/web stopped by the breaker for 2 s (more-than-half; 6 endpoints ready recently)",
        "10.0.0.7 is claimed by live pods a/b and c/d, so its traffic passes",
        "2 objects, or annotations of some, could not be read and are ignored",
        "3 EndpointSlices or Services are too large for the index, so those Services have no denials (namespace flood: 2, \
         shop: 1)",
        "4 objects cannot be read in whole, so what they may concern passes: Pod shop/a, EndpointSlice shop/web-1 and 2 more",
        "packets to a VIP of two Services pass: flood/all claims a VIP of shop/web-1, flood/all claims a VIP of shop/web-2, \
         flood/all claims a VIP of shop/web-3 and 1 more",
        &format!(
            "{finished}: the manager microshift writes their phase, and is not known to be a kubelet"
        ),
        &format!("{finished}: their kubelet does not report PodReadyToStartContainers"),
        "shop/stuck on n1 may hold an IP that it has not shown for 90 s, so nothing is denied as terminated on this node, \
         dead-backend of shop/web",
    ];
    assert_eq!(whats(&ailing()), expected);
    assert!(
        problems(&ailing())
            .iter()
            .all(|problem| !problem.remedy.is_empty())
    );
}

#[test]
fn each_cause_of_a_gap_is_a_problem_that_names_its_detail_and_a_remedy() {
    for cause in Cause::VARIANTS {
        let problem = gap_problem(&Gap {
            cause: *cause,
            detail: "this one".into(),
        });
        assert!(
            problem.what.contains("this one") && problem.remedy.len() > 20,
            "{cause:?}"
        );
    }
}

#[test]
fn each_way_to_be_blind_beside_a_load_balancer_is_a_problem() {
    let hooked = || SocketLb {
        programs: vec!["cil_sock4_conne (id 7)".into()],
        in_force: true,
        refuses: true,
        ..SocketLb::default()
    };
    let netkit = || vec!["nk0".to_owned(), "nk1".to_owned()];
    let of = |socket_lb| {
        whats(&Status {
            socket_lb,
            ..well()
        })
    };
    let none = SocketLb {
        netkit: netkit(),
        ..SocketLb::default()
    };
    assert_eq!([of(none), of(hooked())], [vec![], Vec::<String>::new()]);
    let failed = SocketLb {
        in_force: false,
        problem: Some("EPERM".into()),
        ..hooked()
    };
    assert_eq!(
        of(failed),
        ["calls that cil_sock4_conne (id 7) translates are not judged: EPERM"]
    );
    assert!(
        of(SocketLb {
            refuses: false,
            ..hooked()
        })[0]
            .contains("EPERM")
    );
    assert!(
        of(SocketLb {
            netkit: netkit(),
            ..hooked()
        })[0]
            .starts_with("2 netkit devices, such as nk0")
    );
}
