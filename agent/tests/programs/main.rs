//! Tables of packets through the real programs in the kernel: frame, map contents, verdict, counter.
//!
//! A program test run can't set `tc_index`, so most go through `epguard_selftest`, which is From and To in one: the
//! address that a packet is aimed at is the suspect itself.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod frames;
mod kernel;
mod layout;
mod telemetry;
mod verdicts;
