//! What the agent says about denied flows: one line each in its log.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use crate::scenario::agent::Agent;

/// How long a line may take from the kernel to the log.
const PATIENCE: Duration = Duration::from_secs(3);

/// A line about a flow.
#[derive(Clone, Debug)]
pub struct Report {
    /// `would deny` or `denied`.
    pub message: String,
    /// Which proof holds.
    pub reason: String,
    /// What was done with the packet.
    pub outcome: String,
    /// The Service that was called.
    pub service: String,
    /// The pod that the Service meant.
    pub meant: String,
    /// The pod that has its address now.
    pub hit: String,
    client: String,
    endpoint: String,
}

/// In the log's own words, on three lines.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            message,
            reason,
            outcome,
            service,
            meant,
            hit,
            client,
            endpoint,
        } = self;
        writeln!(
            f,
            "{message:<10} reason={reason} outcome={outcome} service={service}"
        )?;
        writeln!(f, "{:<10} meant={meant} hit={hit}", "")?;
        write!(f, "{:<10} client={client} endpoint={endpoint}", "")
    }
}

/// Waits until the agent has logged this many flows after the first `skip`, and returns all after those.
pub fn after(agent: &Agent, skip: usize, wanted: usize) -> Vec<Report> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reports: Vec<Report> = agent.log().lines().filter_map(parse).skip(skip).collect();
        if reports.len() >= wanted || Instant::now() > deadline {
            return reports;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Other lines have no reason.
fn parse(line: &str) -> Option<Report> {
    let (head, _) = line.split_once(" reason=")?;
    let field = |name: &str| {
        let (_, value) = line.split_once(&format!(" {name}="))?;
        Some(value.split(' ').next()?.trim_matches('"').to_owned())
    };
    Some(Report {
        message: head.rsplit(": ").next()?.to_owned(),
        reason: field("reason")?,
        outcome: field("outcome")?,
        service: field("service")?,
        meant: field("meant")?,
        hit: field("hit")?,
        client: field("client")?,
        endpoint: field("endpoint")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_about_flows_are_reports() {
        let line = r#"2026-11-21T05:00:00Z  WARN epguard::report: denied reason="reused" outcome="dropped" service="a/s" meant="a/p" hit="b/q" client=10.0.0.1:1 endpoint=10.0.0.2:2 protocol="TCP""#;
        let report = parse(line).unwrap();
        assert_eq!((&*report.meant, &*report.hit), ("a/p", "b/q"));
        assert_eq!(
            report.to_string(),
            "denied     reason=reused outcome=dropped service=a/s\n           meant=a/p hit=b/q\n           client=10.0.0.1:1 endpoint=10.0.0.2:2"
        );
        assert!(parse("2026-11-21T05:00:00Z  INFO epguard::run: started node=\"node-a\"").is_none());
    }
}
