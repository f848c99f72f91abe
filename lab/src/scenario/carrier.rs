//! What the agent says about where it carries intents.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::agent::Agent;

/// For as long as the agent may take to see a new neighbour.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until the agent uses one of these carriers of intents, if its status names a carrier at all.
pub fn await_carrier(agent: &Agent, wanted: &[&str]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = agent.status_document()?;
        if in_use(&status).is_none_or(|carrier| wanted.contains(&carrier)) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "beside this neighbour the agent's carrier has to be {}; after {PATIENCE:?} its status shows {}",
            wanted.join(" or "),
            status["status"]["carrier"]
        );
        thread::sleep(Duration::from_millis(10));
    }
}

fn in_use(status: &Value) -> Option<&str> {
    status.get("status")?.get("carrier")?.get("inUse")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_without_a_carrier_in_its_status_uses_none_that_could_be_waited_for() {
        assert_eq!(in_use(&json!({"status": {"mode": "observe"}})), None);
        assert_eq!(
            in_use(&json!({"status": {"carrier": {"inUse": "none"}}})),
            Some("none")
        );
    }
}
