//! The story, act by act. What it claims it has counted.

use anyhow::{Result, ensure};
use epguard_common::Mode;

use super::callers::{CALLS, Caller, Seen, Team, burst};
use super::listing::listing;
use super::maps;
use super::reports::{self, Report};
use super::screen::Screen;
use super::stage::Stage;
use super::tally::{Act, table};
use super::words::{BEFORE, ENFORCED, FOLDED, INTRODUCTION, OBSERVED_AGAIN, REAL, REUSED, SUMMARY};

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
        reported: 0,
    };
    story.before()?;
    story.reused()?;
    story.enforced()?;
    story.observed_again()?;
    story.end()
}

struct Story {
    stage: Stage,
    screen: Screen,
    acts: Vec<Act>,
    /// Flows that the agent has logged in earlier acts.
    reported: usize,
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
        self.observed("2  B has A's IP, observe")
    }

    fn enforced(&mut self) -> Result<()> {
        self.screen.heading("3  epguard enforces");
        self.screen.command("epguard mode enforce");
        self.stage.set_mode(Mode::Enforce)?;
        self.screen.say(ENFORCED);
        let (requests, dropped) = (self.stage.requests_at_b(), self.dropped()?);
        let callers = self.everybody()?;
        let act = self.calls("3  B has A's IP, enforce", &callers);
        let reports = self.reports(&act, "denied");
        self.all(
            &act,
            Team::A,
            &Seen::TimedOut,
            "calls to A reached nobody: the clients may retry",
        );
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
        let dropped = self.dropped()? - dropped;
        let claim = format!("epguard counted {dropped} dropped packets, a SYN for each call to A");
        self.screen.claim(
            dropped == act.calls(Team::A) as u64,
            claim,
            format!("{} calls", act.calls(Team::A)),
        );
        self.named(&act, &reports, "denied");
        self.acts.push(act);
        Ok(())
    }

    fn observed_again(&mut self) -> Result<()> {
        self.screen
            .heading("4  Back to observing: everything passes again, at once");
        self.screen.command("epguard mode observe");
        self.stage.set_mode(Mode::Observe)?;
        self.screen.say(OBSERVED_AGAIN);
        self.observed("4  B has A's IP, observe again")
    }

    fn end(mut self) -> Result<()> {
        self.screen.heading("What the callers saw");
        let titles: Vec<&str> = self.acts.iter().map(Act::title).collect();
        self.screen.table(&table(&self.acts), &titles);
        self.screen.heading("What the kernel holds now");
        self.screen.detail(FOLDED);
        let sizes = maps::show(&self.stage, &self.screen)?;
        self.screen.say("");
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
        let dropped = self.dropped()?;
        let callers = self.everybody()?;
        let act = self.calls(title, &callers);
        let reports = self.reports(&act, "would deny");
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
        let now = self.dropped()?;
        self.screen.claim(
            now == dropped,
            "epguard dropped nothing",
            format!("it dropped {} packets", now - dropped),
        );
        self.named(&act, &reports, "would deny");
        self.acts.push(act);
        Ok(())
    }

    fn everybody(&self) -> Result<Vec<Caller>> {
        Ok([self.stage.callers_of_a()?, self.stage.callers_of_b()?].concat())
    }

    fn calls(&mut self, title: &'static str, callers: &[Caller]) -> Act {
        let number = u16::try_from(self.acts.len()).unwrap_or_default();
        let screen = &mut self.screen;
        screen.say("");
        let answers = burst(callers, number, |answers| screen.answers(callers, answers));
        screen.say("");
        Act::new(title, callers, answers)
    }

    /// What the agent logged of this act, with an example of each kind of caller.
    fn reports(&mut self, act: &Act, verb: &str) -> Vec<Report> {
        let reports = reports::after(&self.stage.agent, self.reported, act.calls(Team::A));
        self.reported += reports.len();
        self.screen
            .detail("  epguard's log has a line for each flow that it denies or would deny; three of them:");
        for report in reports.iter().filter(|report| report.message == verb).take(3) {
            self.screen.say(&format!("    {report}").replace('\n', "\n    "));
        }
        self.screen.say("");
        reports
    }

    fn named(&mut self, act: &Act, reports: &[Report], verb: &str) {
        let calls = act.calls(Team::A);
        let right = |report: &&Report| {
            report.message == verb
                && report.reason == "reused"
                && report.service == "domain-a/report"
                && report.meant == "domain-a/report-h8tsd"
                && report.hit == "domain-b/shop"
        };
        let named = reports.iter().filter(right).count();
        let claim =
            format!("epguard logged all {calls} flows to A, each with both pods' names, and no other");
        self.screen.claim(
            named == calls && reports.len() == calls,
            claim,
            format!("{named} of {} lines are right", reports.len()),
        );
    }

    fn all(&mut self, act: &Act, meant: Team, what: &Seen, words: &str) {
        let (calls, saw) = (act.calls(meant), act.saw(meant, what));
        let claim = format!("all {calls} {words}");
        self.screen
            .claim(calls >= CALLS && saw == calls, claim, format!("{saw} were"));
    }

    /// Packets that epguard has dropped in its life, for whatever reason.
    fn dropped(&self) -> Result<u64> {
        let dump = self.stage.agent.dump()?;
        let rows = dump["counters"].as_array().into_iter().flatten();
        let dropped = rows.filter(|row| row["outcome"] == "dropped");
        Ok(dropped.filter_map(|row| row["packets"].as_u64()).sum())
    }
}
