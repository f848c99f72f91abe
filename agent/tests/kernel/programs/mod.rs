//! The programs in the kernel's own test runs (`BPF_PROG_TEST_RUN`): tables of packets, what becomes of them, and
//! how they are counted.

mod answers;
mod cilium;
mod counted;
mod differential;
mod direct;
mod elements;
pub(crate) mod frames;
mod gate;
mod instructions;
mod kernel;
mod layout;
mod memory;
mod modes;
mod once;
mod redirected;
mod rig;
mod telemetry;
mod tracked;
mod wire;
pub(crate) mod world;
