//! All findings, as a document and for people.

use super::finding::{Finding, Severity};
use crate::shared::output::count;
use crate::shared::plain::plain;
use serde::Serialize;
use std::fmt::Write as _;

/// The output of `epguard lint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `EndpointSlices` checked.
    pub slices: usize,
    /// Pods compared with.
    pub pods: usize,
    /// Sorted by object.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub unchecked: Vec<String>,
}

impl Report {
    /// True if a script should stop: there are errors or, if `strict`, warnings.
    #[must_use]
    pub fn fails(&self, strict: bool) -> bool {
        let counts = |finding: &Finding| strict || finding.severity == Severity::Error;
        self.findings.iter().any(counts)
    }

    /// For people: one block per object, the count last.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let block = |a: &Finding, b: &Finding| (&a.object, &a.controller) == (&b.object, &b.controller);
        for findings in self.findings.chunk_by(block) {
            let head = format!("{}, controller: {}", findings[0].object, findings[0].controller);
            let _ = writeln!(text, "{}", plain(&head));
            for finding in findings {
                let (severity, problem) = (finding.severity, finding.problem);
                let address = finding.address.map(|ip| format!(" {ip}")).unwrap_or_default();
                let [what, fix] = [&finding.what, &finding.fix].map(|text| plain(text));
                let _ = writeln!(text, "  {severity:7} {problem}{address}: {what}");
                let _ = writeln!(text, "          fix: {fix}");
            }
            text.push('\n');
        }
        for what in &self.unchecked {
            let _ = writeln!(text, "not checked: {}", plain(what));
        }
        let findings = self.findings.iter();
        let errors = findings.filter(|f| f.severity == Severity::Error).count();
        let _ = write!(
            text,
            "{} and {}: {}, {}",
            count(self.slices, "EndpointSlice"),
            count(self.pods, "pod"),
            count(errors, "error"),
            count(self.findings.len() - errors, "warning")
        );
        text
    }
}
