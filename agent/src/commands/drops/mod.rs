//! `epguard drops`: denied flows by Service, pod meant and pod hit; or as they come.
//!
//! ```text
//! DENIAL_COUNTS -> Ledger -> Tally (in the agent; clients from events) -> status socket -> filter -> table, or lines
//! ```

mod text;

pub use text::{ago, line as text_line, nothing, table};

use crate::shared::args::{RunArgs, one_of, service};
use crate::shared::drops::{Dropped, Kind};
use crate::shared::output::Output;
use crate::shared::status::{self, Request};
use anyhow::{Context as _, Result};
use clap::Args;
use epguard_common::Reason;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two requests to the agent.
const PACE: Duration = Duration::from_secs(1);

/// Options of `epguard drops`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard drops                           what was denied, or would have been, since the agent's start
  epguard drops -f -n shop                new denials, for the Services of one namespace
  epguard drops --reason reused -o json")]
pub struct DropsArgs {
    /// Print new denials every second until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Which denials.
    #[command(flatten)]
    pub filter: Filter,
    /// Form of the output; with --follow, json and yaml are a list in a line each second
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Which denials are shown.
#[derive(Debug, Clone, Args)]
pub struct Filter {
    /// Only Services of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Only this Service
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: Option<String>,
    /// Only this reason
    #[arg(long, value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
}

impl Filter {
    /// Whether it leaves any denial out.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        self.namespace.is_some() || self.service.is_some() || self.reason.is_some()
    }

    /// Whether it shows denials of this kind.
    #[must_use]
    pub fn wants(&self, kind: &Kind) -> bool {
        let namespace = kind.service.split_once('/').map(|(namespace, _)| namespace);
        self.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted))
            && self.service.as_ref().is_none_or(|wanted| kind.service == *wanted)
            && self.reason.is_none_or(|wanted| kind.reason == wanted)
    }

    /// The denials that it shows.
    #[must_use]
    pub fn of(&self, mut all: Vec<Dropped>) -> Vec<Dropped> {
        all.retain(|dropped| self.wants(&dropped.kind));
        all
    }
}

/// Which packets are new since the counts before.
#[derive(Debug)]
pub struct Follower {
    begun: Instant,
    counted: BTreeMap<Kind, u64>,
}

impl Follower {
    /// For denials since then.
    #[must_use]
    pub const fn since(begun: Instant) -> Self {
        let counted = BTreeMap::new();
        Self { begun, counted }
    }

    /// The new packets of each kind, the latest last. Of a kind that was denied before it begun, the first counts are not.
    pub fn new_of(&mut self, now: &[Dropped]) -> Vec<Dropped> {
        let mut new = Vec::new();
        for dropped in now.iter().rev() {
            let is_new = u128::from(dropped.first_ms_ago) <= self.begun.elapsed().as_millis();
            let before = self.counted.insert(dropped.kind.clone(), dropped.packets);
            let counted = before.unwrap_or(if is_new { 0 } else { dropped.packets });
            // Fewer than before: the agent has restarted.
            let packets = dropped.packets.checked_sub(counted).unwrap_or(dropped.packets);
            if packets > 0 {
                let dropped = dropped.clone();
                new.push(Dropped { packets, ..dropped });
            }
        }
        new
    }
}

/// Reads the agent's counts of denied flows, the latest first. Blocks; errors name the socket and the remedy.
pub fn ask(run_dir: &Path) -> Result<Vec<Dropped>> {
    status::ask(run_dir, &Request::Drops)?.drops.context(
        "the running agent does not count drops: use the epguard binary of this version for the agent, too",
    )
}

/// Asks the agent and prints. Errors: no agent answers, or it stops answering.
pub fn run(args: &DropsArgs) -> Result<()> {
    let filter = &args.filter;
    let first = filter.of(ask(&args.run.run_dir)?);
    if !args.follow {
        let table = |all: &Vec<Dropped>| text::table(all, None, filter.is_narrowed());
        println!("{}", args.output.text(&first, table)?);
        return Ok(());
    }
    let mut follower = Follower::since(Instant::now());
    let mut new = follower.new_of(&first);
    loop {
        match args.output {
            Output::Table => new.iter().for_each(|dropped| println!("{}", text::line(dropped))),
            Output::Json | Output::Yaml => println!("{}", serde_json::to_string(&new)?),
        }
        sleep(PACE);
        new = follower.new_of(&filter.of(ask(&args.run.run_dir)?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use epguard_common::Outcome;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: DropsArgs,
    }

    #[test]
    fn filters_show_only_the_matching_kinds() {
        let kind = |service: &str, reason| Kind {
            service: service.into(),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            protocol: "TCP".into(),
            reason,
            outcome: Outcome::Dropped,
            meant: "shop/a".into(),
            hit: "nobody".into(),
        };
        let wants = |arguments: &[&str], kind: &Kind| {
            let line = Line::parse_from([&["drops"], arguments].concat());
            line.args.filter.wants(kind)
        };
        let web = kind("shop/web", Reason::Reused);
        for arguments in [&[][..], &["-n", "shop"], &["--service", "shop/web"], &["--reason", "reused"]] {
            assert!(wants(arguments, &web), "{arguments:?}");
        }
        for arguments in [&["-n", "sho"][..], &["--service", "shop/we"], &["--reason", "terminated"]] {
            assert!(!wants(arguments, &web), "{arguments:?}");
        }
        assert!(!wants(&["-n", "shop"], &kind("-", Reason::Terminated)));
    }
}
