//! Objects of the API, from their JSON to the state that they lead to.

use crate::daemon::mode_policy::{Actions, Modes, NodeModePolicy};
use epguard_common::{Config, Mode, Reason, ReasonActions, ReasonModes};
use epguard_core::facts::{
    self, Change, Fact, Ignored, Namespace, Node, Object, Pod, Presence, Routes, Service, Slice,
    Watched,
};
use epguard_core::state::{Settings, State};
use epguard_fuzz::{corpus, run, words};
use std::time::Duration;

const WORDS: &str = "null true {} [] \"\" metadata namespace annotations epguard.io/mode epguard.io/action enforce \
    observe off redirect k8s.v1.cni.cncf.io/network-status cni.projectcalico.org/podIP ips podIPs status \
    phase Running Failed Succeeded conditions PodReadyToStartContainers managedFields f:phase kubelet \
    containerStatuses terminated deletionTimestamp targetRef endpoints addresses clusterIPs None \
    sessionAffinity podCIDRs 10.244.1.10 fd00::1 ::ffff:10.244.1.10 0.0.0.0/0 banana \\u0000 \u{fffd} \
    mode canary-mode reused";

/// A state that has listed everything, and then was shown the corpus.
fn state() -> State {
    let mut state = State::new(Settings {
        node: "node-a".into(),
        ..Settings::default()
    });
    let now = Duration::from_secs(1);
    let lists = [
        Fact::Presence(Presence::Routes(Routes::default())),
        Fact::Node(Change::Reset(read("node"))),
        Fact::Service(Change::Reset(read("service"))),
        Fact::Slice(Change::Reset(read("slice"))),
        Fact::Pod(Change::Reset(read("pod"))),
    ];
    for fact in Watched::ALWAYS.map(Watched::empty).into_iter().chain(lists) {
        state.apply(now, fact);
    }
    assert!(state.is_synced());
    state
}

fn read<O: Object>(target: &str) -> Vec<O> {
    corpus(target)
        .iter()
        .map(|json| O::parse(json).unwrap())
        .collect()
}

/// Each way in which a watch can show the object.
fn shown<O: Object + Clone>(target: &'static str, fact: fn(Change<O>) -> Fact) {
    let known = state();
    run(target, corpus(target), &words(WORDS), move |json| {
        let mut ignored = Ignored::new();
        let Ok(object) = O::read(json, &mut ignored) else {
            return;
        };
        let mut state = known.clone();
        for (second, change) in [
            Change::Applied(object.clone()),
            Change::Deleted(object.clone()),
            Change::Gone(object.clone()),
            Change::Reset(vec![object.clone(), object]),
        ]
        .into_iter()
        .enumerate()
        {
            let now = Duration::from_secs(2 + second as u64);
            state.apply(now, fact(change));
            state.tick(now);
        }
    });
}

#[test]
fn objects_and_their_annotations() {
    shown::<Pod>("pod", Fact::Pod);
    shown::<Slice>("slice", Fact::Slice);
    shown::<Service>("service", Fact::Service);
    shown::<Node>("node", Fact::Node);
    shown::<Namespace>("namespace", Fact::Namespace);
}

#[test]
fn the_mode_policy() {
    let flags = (Mode::Observe, ReasonModes::default());
    run(
        "mode-policy",
        corpus("mode-policy"),
        &words(WORDS),
        move |json| {
            let Ok(map) = facts::ModePolicy::parse(json) else {
                return;
            };
            let mut mode_policy = NodeModePolicy::new(
                Some(epguard_core::facts::ObjectName::new("epguard", "epguard")),
                Modes::of_flags(flags.0, flags.1),
                Actions::of_flags(ReasonActions::default()),
                &Config::default(),
            );
            let has_errors = !map.errors.is_empty();
            mode_policy.apply(Change::Applied(map));
            let changed = mode_policy.take_change(true);
            assert_eq!(has_errors, mode_policy.problem(None).is_some());
            if has_errors {
                let applied = mode_policy.take_actions(true);
                assert!(applied.is_none() && mode_policy.take_release().is_none());
            }
            if let Some(mut modes) = changed.filter(|_| has_errors) {
                assert!(modes.mode <= flags.0, "a map with an error raised the mode");
                for reason in Reason::ALL {
                    let mut before = flags.1;
                    assert!(
                        modes.reasons.get_mut(reason) <= before.get_mut(reason),
                        "{reason:?} was raised"
                    );
                }
            }
        },
    );
}
