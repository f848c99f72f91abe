//! Each carrier beside foreign programs: their bits arrive as written, and ours are removed after the last hook.

use std::os::fd::OwnedFd;

use epguard::shared::clock::boot_ns;
use epguard_common::{CARRIER_HIGH, Mode, Outcome};

use super::aim::{Aim, Denied, Direct, Figures, Other, in_both_modes, in_mode, interleaved, send_all};
use super::tcx::{self, Place, TC_CLASSID, TC_INDEX};
use super::world::{DENIED_SLOT, Plan, World, on_both_families};

const LOW: u16 = 0x1f;

/// A program before ours writes `written` into both fields. One behind ours drops packets whose low bits of `tc_classid`
/// differ, one behind our egress hook those whose `tc_index` is not `expected`.
fn beside(world: &World, written: u16, expected: u16) -> Vec<OwnedFd> {
    let [client, x] = ["shop/client", "bank/x"].map(|pod| world.link(pod).to_owned());
    let attach = || {
        vec![
            tcx::attach(
                &client,
                Place::IngressFirst,
                &tcx::set(&[TC_INDEX, TC_CLASSID], written),
            ),
            tcx::attach(
                &client,
                Place::IngressLast,
                &tcx::demand(TC_CLASSID, LOW, written & LOW),
            ),
            tcx::attach(&x, Place::EgressLast, &tcx::demand(TC_INDEX, u16::MAX, expected)),
        ]
    };
    world.netns("node-a").run(attach).unwrap()
}

fn send(world: &World, aims: &[Aim]) -> [u64; 3] {
    let socket = world.socket("shop/client");
    send_all(world, &socket, aims, 64)
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn the_low_five_bits_of_a_neighbour_arrive_while_the_others_carry_the_service() {
    on_both_families(Plan::default(), |mut world| {
        world.hooks.writer.permit(CARRIER_HIGH, false).unwrap();
        let _neighbour = beside(&world, 0x15, 0x15);
        let figures = in_both_modes(&mut world, "tc-index-high", |world| {
            send(world, &interleaved(600))
        });
        figures.iter().for_each(Figures::all_right);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_pod_gets_a_clear_field_even_if_the_sender_wrote_it() {
    on_both_families(Plan::default(), |mut world| {
        // The sender presets the denied Service's slot.
        let _neighbour = beside(&world, DENIED_SLOT.number, 0);
        let figures = in_both_modes(&mut world, "tc-index", |world| send(world, &interleaved(600)));
        figures.iter().for_each(Figures::all_right);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn without_a_carrier_every_bit_arrives_and_packets_of_pods_pass() {
    on_both_families(Plan::default(), |mut world| {
        world.hooks.writer.permit(0, false).unwrap();
        let _neighbour = beside(&world, DENIED_SLOT.number | LOW, DENIED_SLOT.number | LOW);
        let figures = in_both_modes(&mut world, "none", |world| send(world, &interleaved(600)));
        for figures in figures {
            figures.never_wrong();
            assert_eq!(figures.missed(), figures.aimed[0], "{figures}");
        }
        let aimed: u64 = figures
            .iter()
            .map(|figures| figures.aimed[0] + figures.aimed[1])
            .sum();
        assert_eq!(world.hooks.packets(&[Outcome::NotCarried]), aimed);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn when_off_and_past_the_lease_every_bit_arrives() {
    let mut world = World::new(Plan::default());
    let _neighbour = beside(&world, 0x1fff, 0x1fff);
    let aims = [Denied, Other, Direct].repeat(100);
    for (mode, lease_ns) in [
        (Mode::Off, u64::MAX),
        (Mode::Observe, boot_ns()),
        (Mode::Enforce, boot_ns()),
    ] {
        world.hooks.set_mode(mode);
        world.hooks.writer.renew_lease(lease_ns).unwrap();
        let figures = in_mode(&mut world, "nothing in force", mode, |world| send(world, &aims));
        assert_eq!(figures.arrived, figures.aimed, "{mode:?} {figures}");
        assert_eq!(figures.denied, 0, "{mode:?} {figures}");
    }
    let counted = world.hooks.packets(&[Outcome::LeaseExpired]);
    assert_eq!(counted, 200, "packets to the denied Service, in two modes");
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_slot_that_does_not_fit_beside_the_neighbour_is_not_carried_and_counted() {
    let mut world = World::new(Plan::default());
    world
        .hooks
        .writer
        .permit(CARRIER_HIGH & !DENIED_SLOT.number, false)
        .unwrap();
    let _neighbour = beside(&world, 0, 0);
    let figures = in_mode(&mut world, "no room", Mode::Enforce, |world| {
        send(world, &[Denied; 100])
    });
    assert_eq!(figures.arrived, figures.aimed, "{figures}");
    assert_eq!(world.hooks.packets(&[Outcome::NotCarried]), 100);
}
