//! The answer for people: verdict first, then owners, then evidence.

use super::Explanation;
use super::owners::Span;
use super::verdict::Verdict;
use crate::shared::output::after;
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
        if !self.passing.is_empty() {
            let _ = writeln!(text, "\nPASSING all the same");
        }
        for passing in &self.passing {
            let _ = writeln!(text, "  {passing}");
        }
        let none = self.owners.is_empty().then_some(": none that the API showed");
        let _ = writeln!(text, "\nOWNERS{}", none.unwrap_or_default());
        for span in &self.owners {
            let _ = writeln!(text, "  {}", owner(span, self.now));
        }
        let truncated = self.truncated.then_some("; earlier events were dropped");
        let truncated = truncated.unwrap_or_default();
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
        let endpoint = match verdict.port {
            Some(port) => SocketAddr::new(self.ip, port).to_string(),
            None => self.ip.to_string(),
        };
        let aim = match &verdict.service {
            Some(service) => format!("{service} -> {endpoint}{}", after(" ", verdict.protocol.as_ref())),
            None => format!("{endpoint} itself"),
        };
        let reason = verdict.reason.as_ref().map(|reason| format!(" ({reason})"));
        format!("{aim}: {}{}", verdict.verdict, reason.unwrap_or_default())
    }
}

fn owner(span: &Span, now: bool) -> String {
    let Span { pod, uid, from, .. } = span;
    let earlier = if span.or_earlier { " or earlier" } else { "" };
    let to = span.to.as_deref().unwrap_or(if now { "now" } else { "then" });
    let ended = after(", ", span.ended.as_ref());
    let node = after(" on ", span.node.as_ref());
    format!("{from}{earlier} to {to}{ended}: {pod} ({uid}){node}")
}
