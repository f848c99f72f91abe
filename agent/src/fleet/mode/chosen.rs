//! The mode of chosen nodes, until their agents restart or the `ConfigMap` changes.

use super::{ModeArgs, confirm, unseen};
use crate::fleet::agents::Fleet;
use crate::fleet::ask::{self, Answer};
use crate::fleet::missing::{self, names};
use crate::fleet::output;
use anyhow::{Context as _, Result};
use epguard_common::Mode;
use std::process::ExitCode;

/// Runs `epguard mode` on each chosen node. Errors: the answer was not yes.
pub async fn switch(fleet: &Fleet, mode: Mode, args: &ModeArgs) -> Result<ExitCode> {
    let reason = args.reason.map(|reason| format!(" for {reason}"));
    let (what, nodes) = (reason.unwrap_or_default(), names(&fleet.nodes()));
    fleet.require().context("nothing is changed")?;
    let plan = format!("{mode}{what} on {nodes}, until the agent restarts or the ConfigMap changes");
    output::line(&plan).map_err(|error| unseen(&error))?;
    confirm(args.yes)?;
    let mut command = vec!["mode", mode.as_str()];
    if let Some(reason) = args.reason {
        command.extend(["--reason", reason.as_str()]);
    }
    let patience = fleet.scope.patience(ask::PATIENCE);
    let asked = ask::each(fleet, &command, patience, |_, done| match done.code {
        0 => Ok(((), 0)),
        _ => Err(ask::failed(&done, "it did not switch")),
    })
    .await;
    let done: Vec<&str> = asked.answers.iter().map(Answer::node).collect();
    if !done.is_empty() {
        output::line(&format!("done: {}", names(&done)))?;
    }
    if !asked.missing.is_empty() {
        output::line(&missing::text(&asked.missing))?;
    }
    Ok(asked.code().into())
}
