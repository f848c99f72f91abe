//! The debug log of a turn.

use super::*;
use crate::daemon::telemetry::LogFormat;
use crate::daemon::telemetry::testing::logged;
use crate::shared::clock::boot;
use epguard_common::UidState;
use epguard_core::facts::{Object, Part, Pod, Selection, Service};
use epguard_core::freshness::Freshness;
use tokio::time::Instant;

/// Measures nothing.
struct Quiet;

impl Observer for Quiet {
    fn spent(&self) -> Duration {
        Duration::ZERO
    }

    fn receives(&mut self, _: &Message) {}

    fn applied(&mut self, _: &State) {}

    fn stepped(&mut self, _: &State) {}

    fn revived(&mut self, _: &ObjectName) {}

    fn takes_policy(&mut self, _: Change<ModePolicy>) {}
}

fn message(watch: Watched, fact: Fact) -> Message {
    Message {
        watch,
        event: WatchEvent::Fact {
            received: Instant::now(),
            sent: None,
            rv: 1,
            fact: Box::new(fact),
        },
    }
}

fn parsed<T: Object>(json: &str) -> T {
    T::parse(json.as_bytes()).unwrap()
}

const POD: &str = r#"{"metadata": {"namespace": "shop", "name": "web-1", "uid": "1b9c6a86-6d5e-4a5c-9a3e-9d2f3c0f6a11"}}"#;

/// A pod's change, a second list of pods, a list of everything, and a message that is no fact.
fn messages() -> Vec<Message> {
    let pod: Pod = parsed(POD);
    let part = Part {
        selection: Selection::OnNode("node-b".into()),
        sent: Duration::ZERO,
        objects: vec![pod.clone()],
        later: [].into(),
    };
    let service = r#"{"metadata": {"namespace": "shop", "name": "web", "uid": "1b9c6a86-6d5e-4a5c-9a3e-9d2f3c0f6a12"}}"#;
    let services = vec![parsed::<Service>(service)];
    vec![
        message(Watched::Pods, Fact::Pod(Change::Applied(pod))),
        message(Watched::Pods, Fact::Pod(Change::Part(part))),
        message(Watched::Services, Fact::Service(Change::Reset(services))),
        Message {
            watch: Watched::Pods,
            event: WatchEvent::Up,
        },
    ]
}

fn run_turn() {
    run_turn_of(&mut State::default(), messages());
}

fn run_turn_of(state: &mut State, messages: Vec<Message>) {
    let view = Freshness::new(&Watched::ALWAYS, Duration::from_secs(30), || 0.0);
    let mut lease = Lease::new(view, Duration::from_secs(15), Clocks::now());
    let mut waiting = MessageQueue::default();
    for message in messages {
        waiting.push(message);
    }
    let mut turn = Turn {
        state,
        lease: &mut lease,
        waiting: &mut waiting,
        watches: &Watches::default(),
        clock: boot,
        part: PART,
    };
    turn.run(&mut Quiet);
}

#[test]
fn each_line_of_a_debug_log_names_the_fact_that_it_is_about() {
    let log = logged(LogFormat::Text, "epguard=debug", false, run_turn);
    let applied: Vec<&str> = log
        .lines()
        .filter(|line| line.ends_with("applied"))
        .collect();
    let spans = [
        r#"fact{kind="Pod" name=shop/web-1}:"#,
        r#"second_list{kind="Pod" name=list of 1}:"#,
        r#"fact{kind="Service" name=list of 1}:"#,
    ];
    assert_eq!(applied.len(), spans.len(), "{log}");
    for (line, span) in applied.iter().zip(spans) {
        assert!(line.contains(span), "{line}");
    }
}

#[test]
fn a_log_of_the_default_level_has_no_line_of_a_fact() {
    assert_eq!(logged(LogFormat::Text, "", false, run_turn), "");
}

fn list(list: Fact) -> Message {
    let watch = Watched::of(&list).unwrap();
    let event = WatchEvent::Fact {
        received: Instant::now(),
        sent: Some(Duration::ZERO),
        rv: 1,
        fact: Box::new(list),
    };
    Message { watch, event }
}

fn all_lists() -> Vec<Message> {
    vec![
        list(Fact::Pod(Change::Reset(vec![]))),
        list(Fact::Slice(Change::Reset(vec![]))),
        list(Fact::Service(Change::Reset(vec![]))),
        list(Fact::Node(Change::Reset(vec![]))),
        list(Fact::Namespace(Change::Reset(vec![]))),
        list(Fact::ModePolicy(Change::Reset(vec![]))),
    ]
}

fn went_back(watch: Watched) -> Message {
    Message {
        watch,
        event: WatchEvent::Rewound("9 after 10".into()),
    }
}

/// It may be the only one that sees it.
#[test]
fn the_state_starts_over_if_any_watch_sees_that_the_api_went_back_also_that_of_the_mode_policy() {
    for watch in [Watched::Services, Watched::ModePolicy] {
        let mut state = State::default();
        run_turn_of(&mut state, all_lists());
        assert!(state.is_listed());
        run_turn_of(&mut state, vec![went_back(watch)]);
        assert!(!state.is_listed(), "{watch}");
    }
}

#[test]
fn the_state_starts_over_if_the_api_goes_back_before_everything_is_listed() {
    let mut state = State::default();
    run_turn_of(&mut state, vec![list(Fact::Pod(Change::Reset(vec![])))]);
    run_turn_of(&mut state, vec![went_back(Watched::Pods)]);
    assert!(!state.has_listed(Watched::Pods));
}

#[test]
fn the_state_starts_over_once_if_each_watch_sees_that_the_api_went_back() {
    let mut state = State::default();
    run_turn_of(&mut state, all_lists());
    for message in all_lists() {
        let rewound = went_back(message.watch);
        run_turn_of(&mut state, vec![rewound, message]);
    }
    assert!(state.is_listed());
}

/// It may be the only one that sees it, and a pod that is shown alive again lists the others anew.
#[test]
fn the_state_starts_over_although_it_waits_for_the_mode_policy_after_a_pod_was_shown_alive_again() {
    let mut state = State::default();
    run_turn_of(&mut state, all_lists());
    for uid_state in [UidState::Dead, UidState::Live] {
        let pod = Pod {
            uid_state,
            ..parsed(POD)
        };
        let changed = message(Watched::Pods, Fact::Pod(Change::Applied(pod)));
        run_turn_of(&mut state, vec![changed]);
    }
    assert!(!state.is_listed());
    let mut lists = all_lists();
    lists.retain(|list| list.watch != Watched::ModePolicy);
    run_turn_of(&mut state, lists);
    assert!(state.is_listed());
    run_turn_of(&mut state, vec![went_back(Watched::ModePolicy)]);
    assert!(!state.is_listed());
}
