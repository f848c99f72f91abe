//! The harm without epguard, as it was seen on a cluster with Cilium: a Job pod that has finished is still listed, and its
//! IP has gone to a pod of another namespace.

use super::world::on_both_families;
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::{Outcome, Port, Server};

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn without_epguard_a_stranger_answers_half_of_the_calls() {
    on_both_families(|mut world| {
        // The Job's pod had this IP; the Service goes on listing it.
        let ip = world.cluster.ip(1, 9);
        let port = 8080;
        world.program(&[world.cluster.pod(1, 3), std::net::SocketAddr::new(ip, port)]);
        let stranger = world.cluster.lab.add_pod("node-a", "billing/stranger", &[ip]).unwrap();
        let serves = [Port { protocol: Protocol::Tcp, port }];
        let _server = Server::start(&stranger.netns, "billing/stranger", &serves).unwrap();
        for host in ["node-a", "shop/client"] {
            let call = |_| world.call(host, Protocol::Tcp, world.cluster.vip());
            let seen: Vec<Outcome> = (0..100).map(call).collect();
            let by = |pod: &str| seen.iter().filter(|seen| **seen == Outcome::Reply(pod.into())).count();
            assert_eq!([by("shop/local"), by("billing/stranger")], [50, 50], "{host}");
        }
    });
}
