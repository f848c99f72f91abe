//! Replies: their entries show the Service, and they are no packets of its client.

use super::figures::Other;
use super::streams::stream;
use super::world::{Plan, S, T, World, on_both_families};
use epguard_common::Mode;
use epguard_lab::programs::deny;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn replies_to_a_client_whose_address_and_port_are_a_denied_endpoint_pass() {
    const PORT: u16 = 45_000;
    on_both_families(Plan::default(), |mut world: World| {
        let client = world.lab.pod("shop/client").unwrap().ips[0];
        for service in [S, T] {
            deny(&mut world.tables, service, (client, PORT).into());
        }
        world.hooks.writer.install(&world.tables).unwrap();
        world.hooks.set_mode(Mode::Enforce).unwrap();
        assert!(stream(&world, "shop/client", PORT, world.address(Other), 100_000));
        let figures = world.figures();
        assert_eq!(figures.denied, 0, "{figures}");
        assert!(figures.no_intent > 0, "the replies go to a suspect: {figures}");
    });
}
