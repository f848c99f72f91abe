//! The carrier of intents in the agent's status.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::agent::Agent;
use crate::wait;

/// Waits until the agent uses one of these carriers of intents, if its status names a carrier at all.
pub fn await_carrier(agent: &Agent, wanted: &[&str]) -> Result<()> {
    wait::until(Duration::from_millis(10), || {
        let status = agent.status_document()?;
        Ok(wait::holds(
            in_use(&status).is_none_or(|carrier| wanted.contains(&carrier)),
            || {
                let (wanted, seen) = (wanted.join(" or "), &status["status"]["carrier"]);
                format!(
                    "beside this neighbour the agent's carrier has to be {wanted}; its status shows {seen}"
                )
            },
        ))
    })
}

fn in_use(status: &Value) -> Option<&str> {
    status.get("status")?.get("carrier")?.get("inUse")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_without_a_carrier_is_not_waited_for() {
        assert_eq!(in_use(&json!({"status": {"mode": "observe"}})), None);
        assert_eq!(
            in_use(&json!({"status": {"carrier": {"inUse": "none"}}})),
            Some("none")
        );
    }
}
