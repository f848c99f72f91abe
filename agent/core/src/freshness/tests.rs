use super::*;
use Proof::{FreshnessCheck, List};
use Watched::{Namespaces, Nodes, Pods};

const MAX: Duration = Duration::from_secs(30);

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// All watches were listed at second 100.
fn listed(watches: &[Watched], max_age: Duration, random: fn() -> f64) -> Freshness {
    let mut freshness = Freshness::new(watches, max_age, random);
    for id in watches {
        freshness.connected(*id, true);
        freshness.proven(*id, s(100), List);
    }
    freshness
}

fn both() -> Freshness {
    listed(&[Pods, Nodes], MAX, || 0.0)
}

fn due(freshness: &mut Freshness, at: u64) -> Vec<Watched> {
    let due = freshness.due(s(at)).into_iter();
    due.map(|due| due.watch).collect()
}

#[test]
fn a_view_is_as_old_as_its_least_fresh_watch_and_a_late_answer_makes_none_older() {
    let mut freshness = both();
    freshness.proven(Pods, s(120), FreshnessCheck);
    assert_eq!(freshness.least_fresh(), Some((Nodes, Some(s(100)))));
    assert_eq!(freshness.age(s(125)), Some(s(25)));
    assert_eq!(freshness.age_of(Pods, s(125)), Some((s(5), FreshnessCheck)));
    assert_eq!(freshness.deadline(s(125)), Some(s(130)));
    assert_eq!(freshness.deadline(s(130)), None);
    freshness.proven(Pods, s(105), FreshnessCheck);
    assert_eq!(freshness.age_of(Pods, s(120)), Some((s(0), FreshnessCheck)));
}

#[test]
fn a_watch_that_was_never_proven_fresh_leaves_the_view_without_age() {
    let mut freshness = Freshness::new(&[Pods, Nodes], MAX, || 0.0);
    freshness.proven(Pods, s(100), List);
    assert_eq!(freshness.least_fresh(), Some((Nodes, None)));
    assert_eq!(
        (freshness.age(s(100)), freshness.deadline(s(100))),
        (None, None)
    );
}

#[test]
fn a_watch_that_only_lowers_modes_may_be_no_older_than_the_others() {
    let mut freshness = listed(&[Pods, Namespaces], MAX, || 0.0);
    assert_eq!(due(&mut freshness, 124), [Pods, Namespaces]);
    freshness.proven(Pods, s(124), FreshnessCheck);
    assert_eq!(freshness.age(s(125)), Some(s(25)));
    assert_eq!(freshness.deadline(s(125)), Some(s(130)));
    assert!(freshness.is_stale(Namespaces, s(131)));
}

#[test]
fn only_watches_without_a_recent_proof_are_checked() {
    let mut freshness = both();
    assert_eq!(due(&mut freshness, 123), []);
    freshness.proven(Pods, s(123), FreshnessCheck);
    let within = s(6);
    assert_eq!(
        freshness.due(s(124)),
        [Due {
            watch: Nodes,
            within
        }]
    );
    assert_eq!(due(&mut freshness, 125), [], "asked just now");
    freshness.proven(Nodes, s(124), FreshnessCheck);
    assert_eq!(due(&mut freshness, 147), [Pods]);
    assert_eq!(due(&mut freshness, 148), [Nodes]);
}

#[test]
fn a_freshness_check_that_fails_is_repeated_in_time_then_more_and_more_seldom_and_by_agents_apart()
{
    let asked = |random, until| -> Vec<u64> {
        let mut freshness = listed(&[Pods], MAX, random);
        (100..until)
            .filter(|at| !due(&mut freshness, *at).is_empty())
            .collect()
    };
    assert_eq!(asked(|| 0.0, 250), [124, 127, 133, 145, 169, 199, 229]);
    assert_eq!(asked(|| 1.0, 170), [112, 117, 126, 144]);
}

#[test]
fn proofs_that_all_agents_get_at_once_are_renewed_apart() {
    let first = |random: fn() -> f64| {
        let mut freshness = listed(&[Pods], MAX, random);
        let first = (100..130).find(|at| !due(&mut freshness, *at).is_empty());
        freshness.proven(Pods, s(120), FreshnessCheck);
        let second = (120..150).find(|at| !due(&mut freshness, *at).is_empty());
        (first, second)
    };
    assert_eq!(first(|| 1.0), (Some(112), Some(143)));
    assert_eq!(first(|| 0.0), (Some(124), Some(144)));
}

#[test]
fn a_short_view_leaves_its_freshness_checks_time_to_be_answered() {
    for (max_age, asked) in [(3, 101), (10, 104), (60, 148)] {
        let mut freshness = listed(&[Pods], s(max_age), || 0.0);
        assert_eq!(
            (100..200).find(|at| !due(&mut freshness, *at).is_empty()),
            Some(asked),
            "{max_age} s"
        );
    }
}

#[test]
fn all_watches_of_an_old_view_are_checked_at_once_when_a_denial_appears() {
    let at_once = |watch| Due {
        watch,
        within: Duration::ZERO,
    };
    assert_eq!(both().due(s(500)), [Pods, Nodes].map(at_once));
}

#[test]
fn a_watch_that_is_down_is_not_checked_until_it_is_up_again() {
    let mut freshness = both();
    assert_eq!(due(&mut freshness, 124), [Pods, Nodes]);
    freshness.connected(Pods, false);
    assert_eq!(due(&mut freshness, 128), [Nodes]);
    assert_eq!(
        freshness.deadline(s(129)),
        Some(s(130)),
        "it only gets older"
    );
    freshness.connected(Pods, true);
    assert_eq!(due(&mut freshness, 129), [Pods]);
}

#[test]
fn a_watch_that_lacks_an_object_is_checked_at_once_with_a_later_proof() {
    let mut freshness = both();
    assert_eq!(due(&mut freshness, 124), [Pods, Nodes]);
    freshness.void(Some(Pods), s(125));
    assert_eq!(freshness.deadline(s(125)), None);
    assert_eq!(due(&mut freshness, 125), [Pods]);
    freshness.proven(Pods, s(124), FreshnessCheck);
    assert_eq!(
        freshness.deadline(s(126)),
        None,
        "sent while something was lacking"
    );
    freshness.proven(Pods, s(126), FreshnessCheck);
    assert_eq!(
        freshness.deadline(s(126)),
        Some(s(130)),
        "the others' proofs stand"
    );
}

#[test]
fn after_a_clock_jump_every_watch_needs_a_later_proof() {
    let mut freshness = both();
    freshness.void(None, s(101));
    assert_eq!(freshness.deadline(s(101)), None);
    assert_eq!(due(&mut freshness, 101), [Pods, Nodes]);
    freshness.proven(Pods, s(102), FreshnessCheck);
    freshness.proven(Nodes, s(101), FreshnessCheck);
    assert_eq!(freshness.deadline(s(103)), None, "sent before the jump");
    freshness.proven(Nodes, s(102), FreshnessCheck);
    assert_eq!(freshness.deadline(s(103)), Some(s(132)));
}
