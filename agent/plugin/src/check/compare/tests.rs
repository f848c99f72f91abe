//! Tables: what is counted of which calls, and what is wrong with it.

use super::*;
use crate::check::evidence::NodeEvidence;
use crate::check::plan::{Caller, Family};
use epguard_client::answers::status::Condition;
use epguard_client::answers::why::WhyVerdict;
use epguard_client::shared::calls::{CallCount, CallEnd, CallTarget};
use epguard_client::shared::drops::Kind;
use epguard_client::shared::status::{Attachment, Cause, Gap, Status, Watch};
use epguard_core::facts::Watched;

const SERVICE: &str = "epguard-check-abcde/finished-pod";
const MEANT: &str = "epguard-check-abcde/finished-x1y2z";
const STRANGER: &str = "epguard-check-abcde-other/stranger-1";

fn endpoint() -> IpAddr {
    [10, 244, 1, 10].into()
}

fn cell(story: Story, protocol: CallProtocol) -> Cell {
    Cell {
        node: "worker-1".into(),
        caller: Caller::Pod,
        family: Family::V4,
        protocol,
        story,
    }
}

fn counted(reason: Reason, outcome: Outcome, calls: u64) -> Dropped {
    let mut kind = Kind::sample(reason);
    kind.service = SERVICE.into();
    kind.endpoint = (endpoint(), 8080).into();
    kind.outcome = outcome.as_str().into();
    kind.meant = MEANT.into();
    kind.hit = match reason {
        Reason::Reused => STRANGER.into(),
        _ => NOBODY.into(),
    };
    Dropped {
        kind,
        packets: calls,
        bytes: 60 * calls,
        openings: calls,
        clients: vec![],
        first_ms_ago: 1,
        last_ms_ago: 0,
    }
}

/// A node in this mode that denies the endpoint over both protocols.
fn node(mode: Mode) -> NodeEvidence {
    let status = Status {
        synced: true,
        mode: Some(mode),
        lease_ms: 12_000,
        ..Status::default()
    };
    let verdict = |protocol: CallProtocol| WhyVerdict {
        service: Some(SERVICE.into()),
        protocol: Some(protocol.as_str().into()),
        verdict: "deny".into(),
        ..WhyVerdict::default()
    };
    NodeEvidence {
        before: Some(status.clone()),
        condition: Some(Ok(Condition {
            problems: vec![],
            status,
        })),
        passed: BTreeMap::new(),
        verdicts: [(endpoint(), CallProtocol::ALL.map(verdict).into())].into(),
    }
}

fn calls(ends: &[(CallEnd, u64)]) -> CallCount {
    let mut count = CallCount::new(CallTarget {
        protocol: CallProtocol::Tcp,
        address: ([10, 96, 0, 10], 8080).into(),
    });
    for (end, times) in ends {
        for _ in 0..*times {
            count.add(end.clone());
        }
    }
    count
}

fn answered(times: u64) -> CallCount {
    calls(&[(CallEnd::Answered("stranger-1".into()), times)])
}

fn row(story: Story, calls: &CallCount, counted: &[Dropped], node: &NodeEvidence) -> Row {
    compare(&Evidence {
        cell: &cell(story, CallProtocol::Tcp),
        calls,
        service: Some(SERVICE),
        endpoint: endpoint(),
        counted,
        node,
        meant: MEANT,
        is_local: false,
        stranger: STRANGER,
    })
}

/// The fault of a row; empty if there is none.
fn fault(row: &Row) -> String {
    let problem = row.problem.as_ref();
    problem.map_or_else(String::new, |problem| {
        assert!(!problem.remedy.is_empty(), "{problem:?}");
        problem.what.clone()
    })
}

#[test]
fn each_call_is_one_opening_of_tcp_or_one_packet_of_udp() {
    let mut seen = counted(Reason::DeadBackend, Outcome::Observed, 10);
    // Those of answered TCP calls have more packets.
    seen.packets = 70;
    let udp = cell(Story::Finished, CallProtocol::Udp);
    let counts = |cell: &Cell| {
        let calls = calls(&[(CallEnd::TimedOut, 10)]);
        let row = compare(&Evidence {
            cell,
            calls: &calls,
            service: Some(SERVICE),
            endpoint: endpoint(),
            counted: &[seen.clone()],
            node: &node(Mode::Observe),
            meant: MEANT,
            is_local: false,
            stranger: STRANGER,
        });
        row.seen
    };
    assert_eq!(counts(&cell(Story::Finished, CallProtocol::Tcp)), 10);
    assert_eq!(counts(&udp), 70);
}

/// Ten calls, all with this end, and what the agent counts of them.
struct Stale {
    story: Story,
    mode: Mode,
    end: CallEnd,
    outcome: Outcome,
    reason: Reason,
}

impl Stale {
    /// Calls to the finished pod, in enforce.
    const fn stopped(end: CallEnd, outcome: Outcome) -> Self {
        Self {
            story: Story::Finished,
            mode: Mode::Enforce,
            end,
            outcome,
            reason: Reason::DeadBackend,
        }
    }

    /// Calls that the live pod answers, in observe.
    fn reused() -> Self {
        Self {
            story: Story::Reused,
            mode: Mode::Observe,
            end: CallEnd::Answered("stranger-1".to_owned()),
            outcome: Outcome::Observed,
            reason: Reason::Reused,
        }
    }

    fn fault(self) -> String {
        let counted = [counted(self.reason, self.outcome, 10)];
        let calls = calls(&[(self.end, 10)]);
        fault(&row(self.story, &calls, &counted, &node(self.mode)))
    }
}

#[test]
fn stale_calls_are_counted_and_stopped_by_the_mode_and_the_action() {
    let observed = |end: CallEnd| Stale {
        mode: Mode::Observe,
        ..Stale::stopped(end, Outcome::Observed)
    };
    let enforced = Stale {
        mode: Mode::Enforce,
        ..Stale::reused()
    };
    // The IPAM has handed the IP on.
    let handed_on = Stale {
        story: Story::Finished,
        ..Stale::reused()
    };
    for right in [
        observed(CallEnd::TimedOut),
        observed(CallEnd::Refused),
        Stale::stopped(CallEnd::TimedOut, Outcome::Dropped),
        Stale::stopped(CallEnd::Refused, Outcome::Rejected),
        Stale::reused(),
        enforced,
        handed_on,
    ] {
        assert_eq!(right.fault(), "");
    }
}

#[test]
fn stale_calls_with_another_end_fail() {
    let answered = CallEnd::Answered("stranger-1".to_owned());
    let stopped = Stale {
        end: CallEnd::TimedOut,
        outcome: Outcome::Dropped,
        ..Stale::reused()
    };
    let lost = Stale {
        end: CallEnd::TimedOut,
        ..Stale::reused()
    };
    let mistaken = Stale {
        reason: Reason::DeadBackend,
        ..Stale::reused()
    };
    let retired = Stale {
        reason: Reason::RetiredBackend,
        ..Stale::stopped(CallEnd::TimedOut, Outcome::Dropped)
    };
    let stopped_in_observe = Stale {
        mode: Mode::Observe,
        ..Stale::stopped(CallEnd::TimedOut, Outcome::Dropped)
    };
    for (wrong, fault) in [
        (
            Stale::stopped(CallEnd::TimedOut, Outcome::Observed),
            "the mode is enforce, and 10 calls were only observed",
        ),
        (
            stopped_in_observe,
            "the mode is observe, and 10 calls were stopped",
        ),
        (
            Stale::stopped(answered, Outcome::Dropped),
            "the agent counts 10 calls as dropped, and 0 timed out",
        ),
        (
            Stale::stopped(CallEnd::TimedOut, Outcome::Rejected),
            "the agent counts 0 calls as dropped, and 10 timed out",
        ),
        (
            stopped,
            "10 calls were stopped, though the slice names an IP that the pod never had",
        ),
        (
            lost,
            "calls to a live pod are lost, and the agent stopped none: 0 of 10 answered, 10 timed out",
        ),
        (mistaken, "the calls are seen as dead-backend"),
        (retired, "the calls are seen as retired-backend"),
    ] {
        assert_eq!(wrong.fault(), fault);
    }
}

#[test]
fn both_pods_have_to_be_named() {
    let named = |meant: &str, hit: &str| {
        let mut counted = counted(Reason::Reused, Outcome::Observed, 10);
        counted.kind.meant = meant.into();
        counted.kind.hit = hit.into();
        let row = row(
            Story::Reused,
            &answered(10),
            &[counted],
            &node(Mode::Observe),
        );
        fault(&row)
    };
    assert_eq!(named(MEANT, STRANGER), "");
    assert_eq!(
        named("shop/a", STRANGER),
        format!("the pod meant is {MEANT}, and the agent names shop/a")
    );
    assert_eq!(
        named(MEANT, NOBODY),
        format!("the pod hit is {STRANGER}, and the agent names nobody")
    );
}

#[test]
fn a_call_that_is_counted_twice_fails_but_for_those_observed_at_a_load_balancers_sockets() {
    let calls = calls(&[(CallEnd::TimedOut, 10)]);
    let seen = |outcome, times, node: &NodeEvidence| {
        let counted = [counted(Reason::DeadBackend, outcome, times)];
        row(Story::Finished, &calls, &counted, node)
    };
    let usual = seen(Outcome::Observed, 20, &node(Mode::Observe));
    assert_eq!(
        fault(&usual),
        "10 sent, 20 seen: calls are counted more than once"
    );
    let mut beside = node(Mode::Observe);
    status(&mut beside).socket_lb.programs = vec!["cil_sock4_conne (id 7)".into()];
    let noted = seen(Outcome::Observed, 11, &beside);
    assert!(noted.ok && noted.note.is_some(), "{noted:?}");
    assert!(!seen(Outcome::Observed, 21, &beside).ok);
    let mut enforcing = node(Mode::Enforce);
    status(&mut enforcing).socket_lb.programs = vec!["cil_sock4_conne (id 7)".into()];
    assert!(!seen(Outcome::Dropped, 11, &enforcing).ok);
}

#[test]
fn no_call_to_a_live_pod_is_counted_or_lost() {
    for story in [Story::LiveService, Story::LivePod] {
        let fault = |calls: &CallCount, counted: &[Dropped]| {
            fault(&row(story, calls, counted, &node(Mode::Enforce)))
        };
        assert_eq!(fault(&answered(10), &[]), "");
        let denied = [counted(Reason::Reused, Outcome::Dropped, 1)];
        assert_eq!(
            fault(&answered(10), &denied),
            "1 packet to a live pod is counted as dropped (reused)"
        );
        let mut some = answered(7);
        some.add(CallEnd::Refused);
        some.add(CallEnd::Answered("stranger-2".into()));
        some.add(CallEnd::Failed("No route to host".into()));
        assert_eq!(
            fault(&some, &[]),
            "calls to a live pod are lost, and the agent stopped none: 7 of 10 answered, others by stranger-2, 1 refused, \
             1 failed: No route to host"
        );
    }
}

type Change = fn(&mut NodeEvidence);

fn status(node: &mut NodeEvidence) -> &mut Status {
    match &mut node.condition {
        Some(Ok(condition)) => &mut condition.status,
        _ => unreachable!("the node has a status"),
    }
}

fn verdict(node: &mut NodeEvidence, verdict: &'static str) {
    for known in node.verdicts.values_mut().flatten() {
        known.verdict = verdict.into();
        known.because = "shop/b may hold the IP".into();
        known.change = "shop/b showing its IP".into();
    }
}

/// The cause that a node's evidence gives for calls to the finished pod that timed out unseen.
fn cause_after(change: Change) -> String {
    let mut node = node(Mode::Observe);
    change(&mut node);
    let calls = calls(&[(CallEnd::TimedOut, 10)]);
    let row = row(Story::Finished, &calls, &[], &node);
    assert_eq!((row.sent, row.seen), (10, 0));
    let fault = fault(&row);
    let cause = fault.strip_prefix("10 sent, 0 seen: ").unwrap();
    cause.to_owned()
}

#[test]
fn the_cause_of_unseen_calls_is_what_the_agent_says() {
    let rows: [(Change, &str); 14] = [
        (|node| node.condition = None, "no agent runs there"),
        (
            |node| node.condition = Some(Err("no answer within 5 s".into())),
            "its agent does not answer: no answer within 5 s",
        ),
        (
            |node| status(node).mode = Some(Mode::Off),
            "the mode is off for dead-backend",
        ),
        (
            |node| status(node).reasons = [(Reason::DeadBackend, Mode::Off)].into(),
            "the mode is off for dead-backend",
        ),
        (
            |node| status(node).synced = false,
            "not every watch has shown a list yet",
        ),
        (
            |node| {
                status(node).lease_ms = -1;
                let ips = &mut status(node).figures.ips;
                ips.insert(epguard_core::state::IpState::Denied, 1);
            },
            "the lease has ended",
        ),
        (
            |node| verdict(node, "pass"),
            "the agent does not deny the endpoint: shop/b may hold the IP",
        ),
        (
            |node| verdict(node, "stopped"),
            "the breaker stops the denial: shop/b may hold the IP",
        ),
        (
            |node| node.verdicts = [(endpoint(), vec![])].into(),
            "the agent knows no endpoint",
        ),
        (
            |node| {
                status(node).interfaces.push(Attachment {
                    name: "veth1".into(),
                    role: "pod".into(),
                    error: Some("EBUSY".into()),
                    ..Attachment::default()
                });
            },
            "veth1 (pod) has no hooks, so nothing is denied there: EBUSY",
        ),
        (
            |node| status(node).rivals = vec![(SERVICE.into(), "shop/web".into())],
            "packets to a VIP of two Services pass: shop/web claims a VIP of",
        ),
        (
            |node| {
                node.passed = [(Outcome::UnreadableConnection, 3)].into();
                status(node).translators.gaps.push(Gap {
                    cause: Cause::Unreadable,
                    detail: "10 packets".into(),
                });
            },
            "3 packets to suspects passed, as their conntrack entries contradict them",
        ),
        (
            |node| node.passed = [(Outcome::NoConnection, 3)].into(),
            "3 packets to suspects passed without a record of the connection",
        ),
        (
            |_| (),
            "the agent denies the endpoint, and shows no problem",
        ),
    ];
    for (change, cause) in rows {
        let found = cause_after(change);
        assert!(found.starts_with(cause), "{found}");
    }
}

fn stall(node: &mut NodeEvidence) {
    let stalled = Watch {
        up: true,
        ..Watch::default()
    };
    let watches = &mut node.before.as_mut().unwrap().watches;
    watches.insert(Watched::Pods, stalled);
}

#[test]
fn a_watch_that_stalled_before_the_calls_is_the_cause_if_the_agent_did_not_deny_the_endpoint() {
    let found = cause_after(|node| {
        stall(node);
        verdict(node, "pass");
    });
    let cause = "before the calls: watch pods: not proven fresh since a stop";
    assert!(found.starts_with(cause), "{found}");
    let found = cause_after(stall);
    assert!(
        found.starts_with("the agent denies the endpoint"),
        "{found}"
    );
}

#[test]
fn unseen_calls_to_the_own_node_are_no_fault_if_the_agent_shows_none() {
    let fault_with = |ends: CallEnd, node: &NodeEvidence| {
        let calls = calls(&[(ends, 10)]);
        let row = compare(&Evidence {
            cell: &cell(Story::Finished, CallProtocol::Tcp),
            calls: &calls,
            service: Some(SERVICE),
            endpoint: endpoint(),
            counted: &[],
            node,
            meant: MEANT,
            is_local: true,
            stranger: STRANGER,
        });
        assert_eq!(row.ok, row.note.is_some());
        fault(&row)
    };
    let mut gone = node(Mode::Observe);
    assert_eq!(fault_with(CallEnd::TimedOut, &gone), "");
    // Somebody has the IP.
    let answered = CallEnd::Answered("x".into());
    assert!(fault_with(answered, &gone).starts_with("10 sent, 0 seen: "));
    gone.condition = None;
    let cause = fault_with(CallEnd::TimedOut, &gone);
    assert_eq!(
        cause,
        "10 sent, 0 seen: no agent runs there, so packets pass"
    );
}

#[test]
fn calls_that_fail_before_a_packet_leaves_are_no_fault_of_the_agent() {
    let calls = calls(&[(CallEnd::Failed("Network is unreachable".into()), 10)]);
    let row = row(Story::Finished, &calls, &[], &node(Mode::Observe));
    assert_eq!(
        fault(&row),
        "10 sent, 0 seen: 10 calls failed before a packet left: Network is unreachable"
    );
}

#[test]
fn only_what_is_new_counts_and_a_count_that_fell_is_new() {
    let before = [counted(Reason::DeadBackend, Outcome::Observed, 3)];
    let news = |calls: u64| {
        let after = [counted(Reason::DeadBackend, Outcome::Observed, calls)];
        let new = since(&before, &after);
        new.first().map(|new| (new.packets, new.openings))
    };
    assert_eq!(
        [news(13), news(3), news(2)],
        [Some((10, 10)), None, Some((2, 2))]
    );
}

#[test]
fn a_cell_gets_the_counts_of_its_service_family_and_protocol_alone() {
    let own = counted(Reason::DeadBackend, Outcome::Observed, 1);
    let mut other = own.clone();
    other.kind.service = "epguard-check-abcde/finished-host".into();
    let mut v6 = own.clone();
    v6.kind.endpoint = "[fd00::10]:8080".parse().unwrap();
    let mut udp = own.clone();
    udp.kind.protocol = "UDP".into();
    let mut direct = own.clone();
    direct.kind.service = "-".into();
    let all = [other, own.clone(), v6, udp, direct.clone()];
    let of = |service| counted_of(&all, service, endpoint(), CallProtocol::Tcp);
    assert_eq!(of(Some(SERVICE)), [own]);
    assert_eq!(of(None), [direct]);
}
