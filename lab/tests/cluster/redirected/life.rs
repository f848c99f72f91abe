//! A flow from its beginning to its end.

use std::io::ErrorKind;
use std::time::Instant;

use super::place::{call, connect, echo, stage};
use epguard_lab::scenario::format::{Condition, PodEvent};

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_redirected_flow_keeps_its_endpoint_and_is_reset_when_it_dies() {
    let mut stage = stage();
    let _servers = (echo(&stage, "L"), echo(&stage, "B"));
    let mut flow = connect(&stage, "old/web").unwrap();
    call(&mut flow).unwrap();

    // No client calls A any more, so nothing needs a denial; the flow goes on.
    let only_live = [("L".to_owned(), Condition::Ready)].into();
    stage.cluster.set_slice("old/web", &only_live).unwrap();
    stage.catch_up().unwrap();
    call(&mut flow).unwrap();

    // The next process restores it.
    stage.agent.kill();
    call(&mut flow).unwrap();
    stage.agent.start_again().unwrap();
    stage.catch_up().unwrap();
    call(&mut flow).unwrap();

    stage.cluster.pod_event("L", PodEvent::Fails).unwrap();
    stage.catch_up().unwrap();
    let begun = Instant::now();
    let error = call(&mut flow).unwrap_err();
    println!("a flow whose endpoint died is told after {:.1?}: {error}", begun.elapsed());
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
