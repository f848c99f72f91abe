//! Why packets pass, for views made by hand.

use super::*;

fn pod(uid: &str, life: &str) -> PodView {
    PodView {
        name: "shop/web-0".to_owned(),
        uid: uid.to_owned(),
        life: life.to_owned(),
        present: true,
        shows: true,
        ..PodView::default()
    }
}

fn target(uid: &str, listed: bool) -> TargetView {
    TargetView {
        uid: Some(uid.to_owned()),
        pod: Some("shop/web-0".to_owned()),
        listed,
        ready: true,
    }
}

/// A Service lists the IP for a dead pod that is exempt.
fn exempted(why: &str, listed: bool) -> View {
    let endpoint = EndpointView {
        targets: vec![target("1", listed)],
        ..EndpointView::default()
    };
    let service = ServiceView {
        name: "shop/web".to_owned(),
        has_vip: true,
        has_selector: true,
        endpoints: vec![endpoint],
        candidate: Some("shop/web-7".to_owned()),
        ..ServiceView::default()
    };
    let dead = PodView {
        exempt: Some(why.to_owned()),
        order: Some(1),
        ..pod("1", "dead")
    };
    View {
        synced: true,
        pods: vec![dead],
        services: vec![service],
        ..View::default()
    }
}

#[test]
fn a_dead_pod_whose_end_proves_nothing_is_named_with_the_cause() {
    for (why, words) in [
        ("opted-out", "opted out"),
        ("static-ip", "outlives it by design"),
        ("host-network", "its node's"),
        ("virtual-kubelet", "virtual kubelet"),
    ] {
        for listed in [true, false] {
            let view = exempted(why, listed);
            let service = &view.services[0];
            for pass in [
                super::endpoint(&view, service, &service.endpoints[0]),
                direct(&view),
            ] {
                let because = &pass.because;
                assert!(because.starts_with("shop/web-0 has ended, but"), "{because}");
                assert!(because.contains(words), "{because}");
            }
        }
    }
}

#[test]
fn an_owner_that_opted_out_is_named() {
    let mut view = exempted("opted-out", true);
    view.pods[0].exempt = None;
    view.pods.push(PodView {
        name: "bank/db-0".to_owned(),
        exempt: Some("opted-out".to_owned()),
        ..pod("2", "live")
    });
    let service = &view.services[0];
    let pass = super::endpoint(&view, service, &service.endpoints[0]);
    assert!(
        pass.because
            .starts_with("bank/db-0 shows the IP, and it or its Namespace has opted out"),
        "{}",
        pass.because
    );
}

#[test]
fn a_pod_that_came_back_under_its_name_is_told_from_the_one_before() {
    let endpoint = EndpointView {
        targets: vec![target("1", false), target("2", true)],
        ..EndpointView::default()
    };
    let service = ServiceView {
        name: "shop/web".to_owned(),
        has_vip: true,
        endpoints: vec![endpoint],
        ..ServiceView::default()
    };
    let view = View {
        synced: true,
        pods: vec![pod("1", "dead"), pod("2", "live")],
        ..View::default()
    };
    let pass = super::endpoint(&view, &service, &service.endpoints[0]);
    assert_eq!(
        pass.because,
        "shop/web lists the IP for shop/web-0, which is alive"
    );
}
