//! The version of an agent whose answer is of no use here.

use super::agents::{Agent, Fleet};
use super::exec;
use std::time::Duration;
use tokio::time::timeout;

/// Names the agent's version if it is not that of this program; else repeats the cause.
pub async fn explain(fleet: &Fleet, agent: &Agent, patience: Duration, why: String) -> String {
    let command = ["epguard", "--version"].map(str::to_owned);
    let Ok(Ok(done)) = timeout(patience, exec::run(fleet, agent, &command)).await else {
        return why;
    };
    let printed = String::from_utf8_lossy(&done.stdout);
    let own = env!("CARGO_PKG_VERSION");
    match printed.trim().strip_prefix("epguard ") {
        Some(version) if version != own => {
            format!(
                "epguard {version} runs there, and this plugin is {own}: use the plugin of that version ({why})"
            )
        }
        _ => why,
    }
}
