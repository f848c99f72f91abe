//! `epguard drops`: denied flows by Service, pod meant and pod hit; or as they come.
//!
//! ```text
//! DENIAL_COUNTS -> Ledger -> Tally (in the agent; clients from events) -> status socket -> filter -> table, or lines
//! ```

mod text;

pub use text::{ago, line as text_line, nothing, table};

use crate::shared::args::{RunArgs, one_of, service};
use crate::shared::drops::{Dropped, Kind};
use crate::shared::output::{Output, escaped, is_read};
use crate::shared::status::{self, Request};
use anyhow::{Context as _, Result};
use clap::Args;
use epguard_common::Reason;
use serde_json::Value;
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

/// Which packets are new since the counts before. Entries are documents of [`Dropped`], of any version.
#[derive(Debug)]
pub struct Follower {
    begun: Instant,
    /// Packets, bytes and openings of each kind.
    counted: BTreeMap<String, [u64; COUNTS.len()]>,
}

/// The fields of an entry that count packets. Those in [`OF_PACKETS`] are of its packets, too, and all others are its kind.
const COUNTS: [&str; 3] = ["packets", "bytes", "openings"];
const OF_PACKETS: [&str; 3] = ["clients", "firstMsAgo", "lastMsAgo"];

impl Follower {
    /// For denials since then.
    #[must_use]
    pub const fn since(begun: Instant) -> Self {
        let counted = BTreeMap::new();
        Self { begun, counted }
    }

    /// An entry for the new packets of each kind, the latest last. Of a kind that was denied before it begun, the first counts are not.
    pub fn new_of(&mut self, now: &[Value]) -> Vec<Value> {
        // An agent that has just started has read no counts yet.
        if now.is_empty() {
            return Vec::new();
        }
        let (before, mut new) = (std::mem::take(&mut self.counted), Vec::new());
        for entry in now.iter().rev().filter(|entry| entry.is_object()) {
            let kind = kind(entry.clone());
            let counts = COUNTS.map(|field| entry[field].as_u64().unwrap_or(0));
            let first = entry["firstMsAgo"].as_u64().unwrap_or(0);
            let is_new = u128::from(first) <= self.begun.elapsed().as_millis();
            let counted = match before.get(&kind) {
                // Fewer than before: it is counted anew.
                Some(counted) => Some(counted).filter(|counted| counted[0] <= counts[0]),
                None => Some(&counts).filter(|_| !is_new),
            };
            let mut added = entry.clone();
            for (field, (now, before)) in
                COUNTS.iter().zip(counts.iter().zip(counted.unwrap_or(&[0; COUNTS.len()])))
            {
                added[field] = now.saturating_sub(*before).into();
            }
            new.extend(Some(added).filter(|added| added[COUNTS[0]] != 0));
            self.counted.insert(kind, counts);
        }
        new
    }
}

/// What the packets of an entry have in common.
fn kind(mut entry: Value) -> String {
    for field in COUNTS.iter().chain(&OF_PACKETS) {
        entry[field].take();
    }
    entry.to_string()
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
    let mut now = first;
    while is_read() {
        let now_of = |all: &[Dropped]| all.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
        let new = follower.new_of(&now_of(&now)?);
        match args.output {
            Output::Table => {
                for entry in new {
                    println!("{}", text::line(&serde_json::from_value(entry)?));
                }
            }
            Output::Json | Output::Yaml => println!("{}", escaped(serde_json::to_string(&new)?)),
        }
        sleep(PACE);
        now = filter.of(ask(&args.run.run_dir)?);
    }
    Ok(())
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

    #[test]
    fn new_packets_are_those_since_the_last_counts() {
        let entry = |packets: u64, first_ms_ago: u64| {
            serde_json::json!({"service": "shop/web", "reason": "moved", "packets": packets, "bytes": 60 * packets,
                "openings": packets, "clients": [packets], "firstMsAgo": first_ms_ago, "lastMsAgo": packets})
        };
        let (old, young) = (u64::MAX, 0);
        for (answers, added) in [
            // Of a kind from before, only what is added later; of a new one, all.
            ([vec![entry(4, old)], vec![entry(7, old)]], [None, Some(3)]),
            ([vec![entry(4, young)], vec![entry(4, young)]], [Some(4), None]),
            // It is counted anew: the agent lost its counts, or made room for others.
            ([vec![entry(4, old)], vec![entry(3, old)]], [None, Some(3)]),
            ([vec![entry(4, young)], vec![entry(2, young)]], [Some(4), Some(2)]),
        ] {
            let mut follower = Follower::since(Instant::now());
            let mut new = |answer: &[Value]| {
                let new = follower.new_of(answer);
                // An agent that has just started has no counts.
                assert_eq!(follower.new_of(&[]), Vec::<Value>::new());
                let counts = |new: &Value| COUNTS.map(|field| new[field].as_u64().unwrap());
                new.first().map(counts)
            };
            let expected = added.map(|packets| packets.map(|packets| [packets, 60 * packets, packets]));
            assert_eq!([new(&answers[0]), new(&answers[1])], expected, "{answers:?}");
        }
    }
}
