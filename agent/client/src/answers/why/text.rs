//! The text of `epguard why`: verdicts first, then owners, then evidence.

use super::explain::Explanation;
use super::owners::OwnerSpan;
use super::verdict::WhyVerdict;
use crate::shared::output::after;
use std::fmt::Write as _;
use std::net::SocketAddr;

impl Explanation {
    /// The whole answer as text.
    pub fn to_text(&self) -> String {
        let when = if self.now { " (now)" } else { "" };
        let mut text = format!("{} at {}{when}, mode {} now\n", self.ip, self.at, self.mode);
        if self.verdicts.is_empty() {
            let _ = writeln!(text, "\nVERDICT unknown: {}", self.why_no_verdict());
        }
        for verdict in &self.verdicts {
            let _ = writeln!(text, "\nVERDICT {}", self.verdict_line(verdict));
            let _ = writeln!(text, "  because: {}", verdict.because);
            let _ = writeln!(text, "  what would change it: {}", verdict.change);
        }
        if !self.passing.is_empty() {
            let _ = writeln!(text, "\nPASSING all the same");
        }
        for passing in &self.passing {
            let _ = writeln!(text, "  {passing}");
        }
        let none = if self.owners.is_empty() {
            ": none that the API showed"
        } else {
            ""
        };
        let _ = writeln!(text, "\nOWNERS{none}");
        for span in &self.owners {
            let _ = writeln!(text, "  {}", owner_line(span, self.now));
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

    fn why_no_verdict(&self) -> String {
        if self.at < self.since {
            format!("the agent's history of this IP begins at {}", self.since)
        } else {
            "no matching Service lists it on that port, or did in the last 10 minutes".to_owned()
        }
    }

    fn verdict_line(&self, verdict: &WhyVerdict) -> String {
        let endpoint = match verdict.port {
            Some(port) => SocketAddr::new(self.ip, port).to_string(),
            None => self.ip.to_string(),
        };
        let aim = match &verdict.service {
            Some(service) => format!(
                "{service} -> {endpoint}{}",
                after(" ", verdict.protocol.as_ref())
            ),
            None => format!("{endpoint} itself"),
        };
        let reason = match &verdict.reason {
            Some(reason) => format!(" ({reason})"),
            None => String::new(),
        };
        format!("{aim}: {}{reason}", verdict.verdict)
    }
}

fn owner_line(span: &OwnerSpan, now: bool) -> String {
    let OwnerSpan { pod, uid, from, .. } = span;
    let earlier = if span.or_earlier { " or earlier" } else { "" };
    let to = span
        .to
        .as_deref()
        .unwrap_or(if now { "now" } else { "then" });
    let ended = after(", ", span.ended.as_ref());
    let node = after(" on ", span.node.as_ref());
    format!("{from}{earlier} to {to}{ended}: {pod} ({uid}){node}")
}
