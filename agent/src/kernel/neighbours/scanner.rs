//! The scanner: what it knows of this kernel, and what it remembers of programs.

use super::fields::Layout;
use super::found::Found;
use super::programs::Programs;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Surveys the network namespace of the calling thread again and again. It remembers what programs use by their ids.
#[derive(Debug)]
pub struct Scanner {
    pub(super) layout: Layout,
    pub(super) programs: Programs,
    /// False once the kernel said that it has no netkit.
    pub(super) has_netkit: bool,
    /// Why programs cannot be listed.
    pub(super) blind: Option<String>,
    pub(super) walked: Option<Walked>,
}

/// What the last walk found.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) found: Vec<Found>,
    pub(super) at: Instant,
    /// Of the processor's time: on a busy node a cheap walk waits. Zero if it read programs that were new: that happens once.
    pub(super) took: Duration,
}

impl Scanner {
    /// Finds out where the fields lie in this kernel. An error means that none of them can be judged.
    pub fn new() -> Result<Self> {
        Ok(Self {
            layout: Layout::of_kernel()?,
            programs: Programs::default(),
            has_netkit: true,
            blind: None,
            walked: None,
        })
    }
}
