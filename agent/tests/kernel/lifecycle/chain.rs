//! Who else is at the hooks.

use super::node::{Node, foreign, ifindex, tc};
use aya::programs::tc::{NlOptions, TcAttachOptions, TcHandle};
use aya::programs::{LinkOrder, TcAttachType};
use epguard::kernel::datapath::Hooks;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_program_before_ours_is_named_and_one_after_ours_is_not() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Tcx);
    let chain = datapath.hook(ifindex("pod"), "pod").unwrap();
    assert_eq!((chain.position, chain.before.len()), (1, 0));
    let attach = |datapath: &mut _, side, order| {
        let order = TcAttachOptions::TcxOrder(order);
        foreign(datapath).attach_with_options("pod", side, order).unwrap();
    };
    let mut other = node.load(Hooks::Tcx);
    attach(&mut other, TcAttachType::Ingress, LinkOrder::last());
    assert_eq!(datapath.find(ifindex("pod")).unwrap().unwrap(), chain);
    let mut another = node.load(Hooks::Tcx);
    attach(&mut another, TcAttachType::Egress, LinkOrder::first());
    let chain = datapath.find(ifindex("pod")).unwrap().unwrap();
    assert_eq!(chain.position, 2);
    assert_eq!(chain.before, ["to: tcx epguard_selftes"]);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn foreign_filters_run_after_tcx_and_tcx_programs_before_our_filters() {
    let node = Node::new();
    tc("qdisc add dev pod clsact");
    let mut other = node.load(Hooks::Tcx);
    let filter = |priority| {
        TcAttachOptions::Netlink(NlOptions { priority, handle: TcHandle::new(0, 1), classid: None })
    };
    let program = foreign(&mut other);
    program.attach_with_options("pod", TcAttachType::Ingress, filter(1)).unwrap();
    let order = TcAttachOptions::TcxOrder(LinkOrder::last());
    program.attach_with_options("pod", TcAttachType::Egress, order).unwrap();
    let tcx = node.load(Hooks::Tcx).hook(ifindex("pod"), "pod").unwrap();
    assert_eq!((tcx.position, tcx.before.len()), (1, 0));
    let clsact = node.load(Hooks::Clsact).hook(ifindex("pod"), "pod").unwrap();
    assert_eq!(clsact.before, ["to: tcx epguard_selftes"]);
    assert_eq!(clsact.position, 2);
}
