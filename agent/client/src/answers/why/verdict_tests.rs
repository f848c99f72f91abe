//! Why packets pass, in words.

use super::*;
use epguard_common::UidState;
use epguard_core::state::{Exemption, PodView};

fn because(why: &NotProven) -> String {
    not_proven("shop/web", why).because
}

#[test]
fn a_dead_exempt_pod_is_named_with_the_cause() {
    for (why, words) in [
        (Exemption::OptedOut, "opted out"),
        (Exemption::StaticIp, "outlives it by design"),
        (Exemption::HostNetwork, "its node's"),
        (Exemption::VirtualKubelet, "virtual kubelet"),
    ] {
        let dead = PodView {
            name: "shop/web-0".to_owned(),
            uid_state: UidState::Dead,
            exempt: Some(why),
            order: Some(1),
            ..PodView::default()
        };
        let view = View {
            synced: true,
            pods: vec![dead],
            ..View::default()
        };
        let target = |listed| NotProven::Target {
            why: NotStale::Exempt("shop/web-0".to_owned(), why),
            listed,
        };
        for because in [
            because(&target(true)),
            because(&target(false)),
            unused(&view).because,
        ] {
            assert!(
                because.starts_with("shop/web-0 has ended, but"),
                "{because}"
            );
            assert!(because.contains(words), "{because}");
        }
    }
}

#[test]
fn an_owner_that_opted_out_is_named() {
    assert_eq!(
        because(&NotProven::OwnerOptedOut("bank/db-0".to_owned())),
        "bank/db-0 shows the IP, and it or its Namespace has opted out (epguard.io/mode: off)"
    );
}

#[test]
fn a_live_pod_that_is_meant_is_named_with_its_state() {
    let target = |why| NotProven::Target { why, listed: true };
    assert_eq!(
        because(&target(NotStale::Live("shop/web-0".to_owned()))),
        "shop/web lists the IP for shop/web-0, which is alive"
    );
    assert_eq!(
        because(&target(NotStale::Terminating("shop/web-0".to_owned()))),
        "shop/web lists the IP for shop/web-0, which is terminating, and may still serve"
    );
}
