//! The answer for people: verdict first, then owners, then evidence.

use super::Explanation;
use super::owners::Span;
use super::verdict::Verdict;
use std::fmt::Write as _;
use std::net::SocketAddr;

impl Explanation {
    /// The whole answer as text.
    #[must_use]
    pub fn text(&self) -> String {
        let when = if self.now { " (now)" } else { "" };
        let mut text = format!("{} at {}{when}, mode {} now\n", self.ip, self.at, self.mode);
        if self.verdicts.is_empty() {
            let _ = writeln!(text, "\nVERDICT unknown: {}", self.no_verdict());
        }
        for verdict in &self.verdicts {
            let _ = writeln!(text, "\nVERDICT {}", self.verdict(verdict));
            let _ = writeln!(text, "  because: {}", verdict.because);
            let _ = writeln!(text, "  what would change it: {}", verdict.change);
        }
        let _ = writeln!(
            text,
            "\nOWNERS{}",
            if self.owners.is_empty() {
                ": none that the API showed"
            } else {
                ""
            }
        );
        for span in &self.owners {
            let _ = writeln!(text, "  {}", owner(span, self.now));
        }
        let truncated = if self.truncated {
            "; earlier events were dropped"
        } else {
            ""
        };
        let _ = writeln!(text, "\nEVIDENCE since {}{truncated}", self.since);
        for event in &self.evidence {
            let _ = writeln!(text, "  {}  {}", event.at, event.what);
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn no_verdict(&self) -> String {
        if self.at < self.since {
            format!("the agent's history of this IP begins at {}", self.since)
        } else {
            "no matching Service lists it on that port, or did in the last 10 minutes".to_owned()
        }
    }

    fn verdict(&self, verdict: &Verdict) -> String {
        let endpoint = verdict.port.map_or_else(
            || self.ip.to_string(),
            |port| SocketAddr::new(self.ip, port).to_string(),
        );
        let protocol = verdict
            .protocol
            .as_ref()
            .map(|protocol| format!(" {protocol}"))
            .unwrap_or_default();
        let aim = match &verdict.service {
            Some(service) => format!("{service} -> {endpoint}{protocol}"),
            None => format!("{endpoint} itself"),
        };
        let reason = verdict
            .reason
            .as_ref()
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        format!("{aim}: {}{reason}", verdict.verdict)
    }
}

fn owner(span: &Span, now: bool) -> String {
    let from = if span.or_earlier {
        format!("{} or earlier", span.from)
    } else {
        span.from.clone()
    };
    let to = span.to.as_deref().unwrap_or(if now { "now" } else { "then" });
    let node = span
        .node
        .as_deref()
        .map(|node| format!(" on {node}"))
        .unwrap_or_default();
    let ended = span
        .ended
        .as_ref()
        .map(|ended| format!(", {ended}"))
        .unwrap_or_default();
    format!("{from} to {to}{ended}: {} ({}){node}", span.pod, span.uid)
}
