//! The analysis against instructions assembled by hand, as the kernel shows them.

pub(super) mod assembler;
mod calls;
mod differential;
mod suspicions;
mod values;
mod ways;
