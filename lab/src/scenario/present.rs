//! What a story shows to those who watch it.

use anyhow::{Result, ensure};

use super::format::Step;
use super::played::Played;
use super::stage::Stage;

/// Follows a story. By default it shows nothing, and a claim that does not hold ends the story.
pub trait Presenter {
    /// A step begins, after these bursts.
    fn step(&mut self, _stage: &Stage, _played: &[Played<'_>], _step: &Step) -> Result<()> {
        Ok(())
    }

    /// Answers to calls of a burst are there; not yet all.
    fn answers(&mut self, _so_far: &Played<'_>) {}

    /// A burst is over, and the agent has counted its connections.
    fn counted(&mut self, _played: &Played<'_>) {}

    /// Whether what a text says holds, and what was seen, in words, for when it does not.
    fn claim(&mut self, holds: bool, text: String, seen: String) -> Result<()> {
        ensure!(holds, "expected that {text}, but {seen}");
        Ok(())
    }
}

/// Shows nothing.
#[derive(Debug)]
pub struct Silent;

impl Presenter for Silent {}
