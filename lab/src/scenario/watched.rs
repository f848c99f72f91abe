//! Checks the neighbour's verdicts on each call: they must be the same as without epguard.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::format::Call;
use crate::neighbour::{Neighbour, Verdicts};
use crate::wait;

/// The neighbour, with the checks of its verdicts.
#[derive(Debug)]
pub struct Watched<'a>(&'a Neighbour);

impl<'a> Watched<'a> {
    /// The neighbour of a stage.
    pub fn new(neighbour: &'a Neighbour) -> Self {
        Self(neighbour)
    }

    /// The verdicts of its policy so far.
    pub fn verdicts(&self) -> Result<Verdicts> {
        self.0.verdicts()
    }

    /// Checks its verdicts since `before` for one call, which it must drop if `is_forbidden`. The story's proxy marks no packets, and without epguard no packet
    /// has a `tc_index`.
    pub fn check(&self, call: &Call, is_forbidden: bool, before: Verdicts) -> Result<()> {
        let least = if is_forbidden { u64::from(call.times) } else { 0 };
        // A packet is counted when its client has its answer, or a moment later.
        wait::until(Duration::from_millis(5), || {
            let now = self.0.verdicts()?;
            ensure!(
                now.skipped == 0,
                "a packet carries a mark that switches the neighbour's policy off; its policy: before {before}, now {now}"
            );
            ensure!(
                is_forbidden || now.forbidden == before.forbidden,
                "the neighbour's policy drops what the story does not forbid: before {before}, now {now}"
            );
            Ok(wait::holds(now.forbidden >= before.forbidden + least, || {
                format!(
                    "the neighbour's policy has not dropped {least}; its policy: before {before}, now {now}"
                )
            }))
        })?;
        let marked: Vec<String> = (self.0.arrived()?.iter())
            .filter(|(tc_index, _)| **tc_index != 0)
            .map(|(tc_index, packets)| format!("{packets} with {tc_index:#06x}"))
            .collect();
        ensure!(
            marked.is_empty(),
            "packets arrive in pods with a tc_index that only epguard writes: {}",
            marked.join(", ")
        );
        Ok(())
    }
}
