//! The programs in the kernel's own test runs (`BPF_PROG_TEST_RUN`): tables of packets, what
//! becomes of them, and how they are counted.

mod answers;
mod cilium;
mod counted;
mod differential;
mod direct;
mod elements;
#[allow(dead_code, reason = "the benchmark uses the rest")]
pub(crate) mod frames;
mod gate;
mod instructions;
pub(crate) mod kernel;
mod layout;
mod memory;
mod modes;
mod once;
mod redirected;
#[allow(dead_code, reason = "the benchmark uses the rest")]
mod rig;
mod stack;
mod telemetry;
mod tracked;
mod wire;
pub(crate) mod world;

use self::kernel::*;
use epguard_common::*;
use frames::*;
use rig::*;
use tracked::Tracked;
use wire::*;
use world::*;
