//! The scanner: the field layout of this kernel, and the programs that were analysed.

use super::fields::Layout;
use super::found::Found;
use super::programs::Programs;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Surveys the network namespace of the calling thread again and again. It keeps what programs use by their ids.
#[derive(Debug)]
pub struct Scanner {
    pub(super) layout: Layout,
    pub(super) programs: Programs,
    /// False once the kernel has reported that it has no netkit.
    pub(super) has_netkit: bool,
    /// Why programs cannot be listed.
    pub(super) blind: Option<String>,
    pub(super) walked: Option<Walked>,
}

/// The result of the last walk.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) found: Vec<Found>,
    pub(super) at: Instant,
    /// Processor time: on a busy node also a cheap walk waits. Zero if it read programs that were new: that happens
    /// once.
    pub(super) took: Duration,
}

impl Scanner {
    /// Reads where the fields lie in this kernel. An error means that no program can be judged.
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
