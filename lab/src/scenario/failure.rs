//! Why a story failed.

/// Why a run failed.
#[derive(Debug)]
pub struct Failure {
    /// The line of the step in the file; none if the run failed before the first step.
    pub line: Option<u64>,
    /// What was expected and what was seen.
    pub error: anyhow::Error,
    /// The agent's last log lines and what the maps held; empty before the first step.
    pub evidence: String,
}

impl Failure {
    /// The error, after its evidence.
    pub fn into_error(self) -> anyhow::Error {
        if self.evidence.is_empty() {
            return self.error;
        }
        self.error.context(self.evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_failure_without_evidence_begins_with_its_error() {
        let failure = |evidence: &str| Failure {
            line: None,
            error: anyhow!("root is needed"),
            evidence: evidence.to_owned(),
        };
        let text = |evidence| format!("{:#}", failure(evidence).into_error());
        assert_eq!(text(""), "root is needed");
        assert_eq!(text("agent's log"), "agent's log: root is needed");
    }
}
