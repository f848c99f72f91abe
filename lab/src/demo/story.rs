//! The story, act by act. What it claims it has counted.

use anyhow::{Result, ensure};
use epguard_common::{Mode, Outcome, Reason};

use super::callers::{CALLS, Caller, OUTSIDE, Seen, Team, burst};
use super::listing::listing;
use super::maps;
use super::reports::{Counted, Report};
use super::screen::Screen;
use super::stage::Stage;
use super::tally::{Act, milliseconds, table};
use super::words::{
    BEFORE, DROPPED, FOLDED, INTRODUCTION, OBSERVED_AGAIN, REAL, REDIRECTED, REJECTED, REUSED, SUMMARY,
};
use crate::scenario::counters::Counters;

/// Tells the whole story; an error if any claim did not hold.
pub fn tell() -> Result<()> {
    let screen = Screen::new();
    screen.heading("epguard: a Service must not lead to a stranger");
    screen.say(INTRODUCTION);
    screen.detail(REAL);
    let mut story = Story {
        stage: Stage::new()?,
        screen,
        acts: Vec::new(),
        counted: Counted::default(),
    };
    story.before()?;
    story.reused()?;
    story.dropped()?;
    story.rejected()?;
    story.redirected()?;
    story.observed_again()?;
    story.end()
}

struct Story {
    stage: Stage,
    screen: Screen,
    acts: Vec<Act>,
    /// What the agent has counted in earlier acts.
    counted: Counted,
}

impl Story {
    fn before(&mut self) -> Result<()> {
        self.screen.heading("1  Before: the Job runs");
        self.stage.a_runs()?;
        self.screen.say(&listing(&self.stage));
        self.screen.say(BEFORE);
        let callers = self.stage.callers_of_a()?;
        let act = self.calls("1  the Job runs", &callers);
        self.all(
            &act,
            Team::A,
            &Seen::Answer(Team::A),
            "calls to A were answered by A",
        );
        self.acts.push(act);
        Ok(())
    }

    fn reused(&mut self) -> Result<()> {
        self.screen
            .heading("2  The Job is done and B gets its IP; epguard observes");
        self.stage.a_ends()?;
        self.stage.b_runs()?;
        self.screen.say(&listing(&self.stage));
        self.screen.say(REUSED);
        self.observed("2  B has A's IP: observe")
    }

    fn dropped(&mut self) -> Result<()> {
        self.screen.heading("3  epguard enforces: drop");
        self.screen.command("epguard mode enforce");
        self.stage.set_mode(Mode::Enforce)?;
        self.screen.say(DROPPED);
        let words = "calls to A reached nobody: the clients may retry";
        self.stopped("3  enforce: drop", Outcome::Dropped, &Seen::TimedOut, words)
    }

    fn rejected(&mut self) -> Result<()> {
        self.screen.heading("4  The clients are told: reject");
        self.screen.command("epguard action reject");
        self.stage.set_action("reject")?;
        self.screen.say(REJECTED);
        let words = "calls to A were refused: the clients know at once";
        self.stopped("4  enforce: reject", Outcome::Rejected, &Seen::Refused, words)?;
        let [.., dropped, rejected] = self.acts.as_slice() else {
            return Ok(());
        };
        let [before, now] = [dropped, rejected].map(|act| act.median(Team::A));
        let claim = format!(
            "half of them within {}, where drop let them wait {}",
            milliseconds(now),
            milliseconds(before)
        );
        self.screen.claim(now * 10 <= before, claim, "not even a tenth");
        Ok(())
    }

    fn redirected(&mut self) -> Result<()> {
        self.screen
            .heading("5  The clients are led to A's next pod: redirect");
        self.stage.a_runs_again()?;
        self.screen.say(&listing(&self.stage));
        self.screen.say(REDIRECTED);
        self.screen.pause();
        self.screen
            .command("kubectl annotate service -n domain-a report epguard.io/action=redirect");
        self.stage.ask_for("redirect")?;
        self.screen.pause();
        let words = "calls to A were answered by A, by its next pod";
        let answered = Seen::Answer(Team::A);
        self.stopped("5  enforce: redirect", Outcome::Redirected, &answered, words)
    }

    fn observed_again(&mut self) -> Result<()> {
        self.screen
            .heading("6  Back to observing: everything passes again, at once");
        self.screen.command("epguard mode observe");
        self.stage.set_mode(Mode::Observe)?;
        self.screen.say(OBSERVED_AGAIN);
        self.observed("6  observe again")
    }

    fn end(mut self) -> Result<()> {
        self.screen.heading("What the callers saw");
        let titles: Vec<&str> = self.acts.iter().map(Act::title).collect();
        self.screen.table(&table(&self.acts), &titles);
        self.screen.heading("What the kernel holds now");
        self.screen.detail(FOLDED);
        let sizes = maps::show(&self.stage, &self.screen)?;
        self.screen.pause();
        for (map, claim) in [
            ("SUSPECTS", "one IP of the whole cluster is suspect"),
            ("DENIED", "one endpoint of one Service is denied"),
        ] {
            let size = sizes.get(map).copied().unwrap_or_default();
            self.screen
                .claim(size == 1, claim, format!("{map} has {size} entries"));
        }
        let (claims, broken) = self.screen.claims();
        ensure!(
            broken.is_empty(),
            "{} of {claims} claims did not hold: {}",
            broken.len(),
            broken.join("; ")
        );
        self.screen.heading(&format!("All {claims} claims held"));
        self.screen.say(SUMMARY);
        Ok(())
    }

    /// An act in observe mode, where everybody calls: B answers, epguard tells, nothing is lost.
    fn observed(&mut self, title: &'static str) -> Result<()> {
        let before = self.counters()?;
        let callers = self.everybody()?;
        let act = self.calls(title, &callers);
        let reports = self.reports(&act);
        self.all(
            &act,
            Team::A,
            &Seen::Answer(Team::B),
            "calls to A were answered by B, the stranger",
        );
        self.all(
            &act,
            Team::B,
            &Seen::Answer(Team::B),
            "calls to B by its own clients were answered by B",
        );
        let counted = self.counters()?.since(&before);
        let stopped: u64 = Outcome::STOPPED
            .map(|outcome| counted.with_outcome(outcome))
            .iter()
            .sum();
        self.screen.claim(
            stopped == 0,
            "epguard stopped nothing",
            format!("it counted {counted}"),
        );
        self.named(&act, &reports, Outcome::Observed);
        self.acts.push(act);
        Ok(())
    }

    /// An act in enforce mode, where everybody calls: A's clients see this, and B hears of its own ones only.
    fn stopped(&mut self, title: &'static str, outcome: Outcome, seen: &Seen, words: &str) -> Result<()> {
        let (requests, before) = (self.stage.requests_at_b(), self.counters()?);
        let mut callers = self.everybody()?;
        // A masqueraded flow is never redirected: clients of different tenants would share its address.
        callers.retain(|caller| outcome != Outcome::Redirected || caller.who != OUTSIDE);
        let act = self.calls(title, &callers);
        let reports = self.reports(&act);
        self.all(&act, Team::A, seen, words);
        self.all(
            &act,
            Team::B,
            &Seen::Answer(Team::B),
            "calls to B by its own clients were answered by B",
        );
        let (arrived, own) = (self.stage.requests_at_b() - requests, act.calls(Team::B) as u64);
        let claim = format!("B's process received those {own} requests and not one more");
        self.screen
            .claim(arrived == own, claim, format!("it received {arrived}"));
        let (calls, counted) = (act.calls(Team::A) as u64, self.counters()?.since(&before));
        let claim = format!(
            "epguard counted {calls} {} packets, a SYN for each call to A",
            outcome.as_str()
        );
        self.screen.claim(
            counted.of(Reason::Reused, outcome) == calls,
            claim,
            format!("it counted {counted}"),
        );
        self.named(&act, &reports, outcome);
        self.acts.push(act);
        Ok(())
    }

    fn everybody(&self) -> Result<Vec<Caller>> {
        Ok([self.stage.callers_of_a()?, self.stage.callers_of_b()?].concat())
    }

    fn calls(&mut self, title: &'static str, callers: &[Caller]) -> Act {
        let number = u16::try_from(self.acts.len()).unwrap_or_default();
        let screen = &mut self.screen;
        let answers = burst(callers, number, |answers| screen.answers(callers, answers));
        screen.pause();
        Act::new(title, callers, answers)
    }

    /// What the agent counted of this act.
    fn reports(&mut self, act: &Act) -> Vec<Report> {
        let calls = act.calls(Team::A) as u64;
        let reports = self.counted.next(&self.stage.agent, calls);
        if let Some(report) = reports.first() {
            self.screen
                .detail("  epguard counts the connections to A, and `epguard drops` shows them:");
            self.screen.say(&format!("    {report}").replace('\n', "\n    "));
            self.screen.pause();
        }
        reports
    }

    fn named(&mut self, act: &Act, reports: &[Report], outcome: Outcome) {
        let calls = act.calls(Team::A) as u64;
        let right = |report: &&Report| {
            let kind = &report.kind;
            kind.outcome == outcome.as_str()
                && kind.reason == "reused"
                && kind.service == "domain-a/report"
                && kind.meant == "domain-a/report-h8tsd"
                && kind.hit == "domain-b/shop"
        };
        let opened =
            |reports: &mut dyn Iterator<Item = &Report>| reports.map(|report| report.opened).sum::<u64>();
        let (named, all) = (
            opened(&mut reports.iter().filter(right)),
            opened(&mut reports.iter()),
        );
        let claim =
            format!("epguard counted all {calls} connections to A, with both pods' names, and no other");
        self.screen.claim(
            named == calls && all == calls,
            claim,
            format!("{named} of {all} are right"),
        );
    }

    fn all(&mut self, act: &Act, meant: Team, what: &Seen, words: &str) {
        let (calls, saw) = (act.calls(meant), act.saw(meant, what));
        let claim = format!("all {calls} {words}");
        self.screen
            .claim(calls >= CALLS && saw == calls, claim, format!("{saw} were"));
    }

    fn counters(&self) -> Result<Counters> {
        Counters::read(self.stage.agent.pin_dir())
    }
}
