//! What the neighbour makes of each call: the same as without epguard.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use epguard_common::Mode;

use super::format::{Call, ForbiddenIn};
use crate::neighbour::{Neighbour, Verdicts};

/// For a packet that is counted when its client has its answer, or a moment later on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The neighbour, with what it must not be led to.
#[derive(Debug)]
pub struct Watched<'a>(&'a Neighbour);

impl<'a> Watched<'a> {
    /// The neighbour of a stage.
    pub fn new(neighbour: &'a Neighbour) -> Self {
        Self(neighbour)
    }

    /// What its policy has said so far.
    pub fn verdicts(&self) -> Result<Verdicts> {
        self.0.verdicts()
    }

    /// Checks what it has made of a call since `before`. No proxy of the story's marks packets, and without epguard no
    /// packet has a `tc_index`.
    pub fn check(&self, call: &Call, mode: Mode, before: Verdicts) -> Result<()> {
        let is_forbidden = match call.forbidden {
            Some(ForbiddenIn::EveryMode) => true,
            Some(ForbiddenIn::Enforce) => mode == Mode::Enforce,
            None => false,
        };
        let deadline = Instant::now() + PATIENCE;
        let least = if is_forbidden { u64::from(call.times) } else { 0 };
        let mut now = self.0.verdicts()?;
        while now.forbidden < before.forbidden + least && now.skipped == 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
            now = self.0.verdicts()?;
        }
        ensure!(
            now.skipped == 0,
            "a packet carries a mark that switches the neighbour's policy off; its policy: before {before}, now {now}"
        );
        ensure!(
            now.forbidden >= before.forbidden + least,
            "expected that the neighbour's policy drops at least {least}; its policy: before {before}, now {now}"
        );
        ensure!(
            is_forbidden || now.forbidden == before.forbidden,
            "the neighbour's policy drops what the story does not forbid: before {before}, now {now}"
        );
        let marked: Vec<String> = (self.0.arrived()?.iter())
            .filter(|(tc_index, _)| **tc_index != 0)
            .map(|(tc_index, packets)| format!("{packets} with {tc_index:#06x}"))
            .collect();
        ensure!(
            marked.is_empty(),
            "packets arrive in pods with a tc_index that nobody but epguard writes: {}",
            marked.join(", ")
        );
        Ok(())
    }
}
