//! Plays a burst, and checks what its clients saw and what epguard counted.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use epguard_common::{Outcome, Reason};

use super::counters::Counters;
use super::format::{Action, Burst, Group};
use super::played::{Counted, Played, Presenter, Report, milliseconds};
use super::stage::Stage;
use super::traffic::{Clients, word};
use crate::traffic::{Call, Client, Server};

/// Between two calls: few enough a second for epguard to report every packet.
const PACE: Duration = Duration::from_millis(40);
/// Below the second after which TCP would repeat a SYN: what is denied is one packet a call.
const TIMEOUT: Duration = Duration::from_millis(800);

/// Makes the calls and hands every claim to the presenter.
pub(super) fn play<'a>(
    burst: &'a Burst,
    stage: &Stage,
    (clients, counted): (&mut Clients, &mut Counted),
    earlier: &[Played<'a>],
    presenter: &mut dyn Presenter,
) -> Result<Played<'a>> {
    for group in &burst.groups {
        let is_whole = group.denied.is_some() == group.hit.is_some();
        ensure!(is_whole, "calls to {} have `denied` and `hit`, or none of them", group.means);
    }
    let server = |group: &Group| stage.cluster.servers.get(&group.means);
    let requests = |group: &Group| server(group).map_or(0, Server::requests);
    let before = stage.counters()?;
    let received: Vec<u64> = burst.groups.iter().map(requests).collect();
    let calls = burst.callers().map(|(_, caller)| {
        let call = |_| clients.aim(&caller.from, &caller.call, TIMEOUT, &stage.cluster);
        (0..burst.rounds).map(call).collect()
    });
    let mut played = Played {
        burst,
        answers: vec![vec![None; usize::try_from(burst.rounds)?]; burst.callers().count()],
        reports: Vec::new(),
    };
    make(&calls.collect::<Result<Vec<_>>>()?, &mut played, presenter);
    let denied = burst.denied().map(|group| (group, played.calls(group)));
    if let Some((_, wanted)) = denied {
        played.reports = counted.next(&stage.agent, wanted);
    }
    let now = stage.counters()?.since(&before);
    presenter.counted(&played);
    for group in &burst.groups {
        let saw = played.of(group).filter(|answer| word(answer) == group.sees).count() as u64;
        let text = format!("all {} {}", played.calls(group), group.claim);
        presenter.claim(saw == played.calls(group), text, format!("{saw} were"))?;
    }
    let Some((group, calls)) = denied else {
        return Ok(played);
    };
    if group.by.is_some() {
        let others = burst.groups.iter().zip(&received);
        for (other, before) in others.filter(|(other, _)| other.denied.is_none()) {
            let (own, got) = (played.calls(other), requests(other) - before);
            let text = format!("{}'s process received those {own} requests and not one more", other.means);
            presenter.claim(own == got, text, format!("it received {got}"))?;
        }
        stopped(group, calls, &now, presenter)?;
    } else {
        let stopped: u64 = Outcome::stopped().map(|outcome| now.with_outcome(outcome)).sum();
        let text = "epguard stopped nothing".into();
        presenter.claim(stopped == 0, text, format!("it counted {now}"))?;
    }
    let (named, all) = named(&played, group, stage)?;
    let text = format!(
        "epguard counted all {calls} connections to {}, with both pods' names, and no other",
        group.means
    );
    let seen = format!("{named} of {all} are right");
    presenter.claim(named == calls && all == calls, text, seen)?;
    if let Some(than) = burst.quicker_than {
        quicker(played.median(group), than, earlier, presenter)?;
    }
    Ok(played)
}

fn stopped(group: &Group, calls: u64, now: &Counters, presenter: &mut dyn Presenter) -> Result<()> {
    let outcome = outcome(group);
    let reason = group.denied.as_deref().and_then(Reason::parse);
    let counted = reason.map_or(0, |reason| now.of(reason, outcome));
    let text = format!(
        "epguard counted {calls} {} packets, a SYN for each call to {}",
        outcome.as_str(),
        group.means
    );
    presenter.claim(counted == calls, text, format!("it counted {now}"))
}

fn quicker(now: Duration, than: Action, earlier: &[Played<'_>], presenter: &mut dyn Presenter) -> Result<()> {
    let mut medians = earlier.iter().filter_map(|played| {
        let group = played.burst.denied().filter(|group| group.by == Some(than))?;
        Some(played.median(group))
    });
    let before = medians.next().context("no earlier burst is denied in this way")?;
    let text = format!(
        "half of them within {}, where {than} let them wait {}",
        milliseconds(now),
        milliseconds(before)
    );
    presenter.claim(now * 10 <= before, text, "not even a tenth".into())
}

fn outcome(group: &Group) -> Outcome {
    group.by.map_or(Outcome::Observed, Action::outcome)
}

/// Lets the callers call in turns, and shows after each answer what there is.
fn make(calls: &[Vec<(Client, Call)>], played: &mut Played<'_>, presenter: &mut dyn Presenter) {
    presenter.answers(played);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for turn in 0..calls.first().map_or(0, Vec::len) {
                for (row, calls) in calls.iter().enumerate() {
                    let tell = tell.clone();
                    let (client, call) = &calls[turn];
                    scope.spawn(move || tell.send((row, turn, client.call(*call))));
                    thread::sleep(PACE);
                }
            }
        });
        for (row, turn, answer) in told {
            played.answers[row][turn] = Some(answer);
            presenter.answers(played);
        }
    });
}

/// Connections that the agent counted as it should, and all that it counted.
fn named(played: &Played<'_>, group: &Group, stage: &Stage) -> Result<(u64, u64)> {
    let names = &stage.cluster.names;
    let full = |pod: &str| names.expand_text(&format!("${{{pod}}}"));
    let (meant, hit) = (full(&group.means)?, full(group.hit.as_deref().unwrap_or_default())?);
    let right = |report: &&Report| {
        let kind = &report.kind;
        kind.outcome == outcome(group).as_str()
            && Some(&*kind.reason) == group.denied.as_deref()
            && group.callers.iter().any(|caller| caller.call == kind.service)
            && (&kind.meant, &kind.hit) == (&meant, &hit)
    };
    let opened = |report: &Report| report.opened;
    Ok((played.reports.iter().filter(right).map(opened).sum(), played.reports.iter().map(opened).sum()))
}
