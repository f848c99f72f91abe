//! The analysis against instructions assembled by hand, as the kernel shows them.

mod assembler;
mod calls;
mod differential;
mod suspicions;
mod values;
mod ways;
