//! What the kernel programs and the agent share: map layouts, packet parsing, verdicts.
//!
//! Everything that decides is here, as pure functions, so that it is tested without a kernel.
#![no_std]

mod addr;
mod uid;

pub use addr::Addr;
pub use uid::Uid;
