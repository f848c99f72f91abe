//! Finds neighbours that use the packet fields that can carry a Service's slot between epguard's hooks.
//!
//! `skb->tc_index` and `tc_classid` belong to every program and queueing discipline that a packet meets: Cilium keeps
//! policy flags in the low bits of `tc_index`. Before epguard writes one, this module finds what the others read and set:
//!
//! `fields` reads from the kernel where the fields lie · `reach` surveys by a `walk` over all that can meet packets
//! here, with `programs` for the instructions and `kernel` for filters and queueing disciplines · `flow` follows the
//! fields through a program, over `step`, `access`, `stack`, `value`, `field` and `insn` · `found` and `uses` are the
//! results.
//!
//! What cannot be read or understood counts as a user of every bit.

mod access;
mod bits;
mod field;
mod field_math;
mod fields;
mod flow;
#[cfg(test)]
mod flow_tests;
mod follow;
mod found;
mod helpers;
mod insn;
mod kernel;
mod programs;
mod reach;
mod scanner;
mod shapes;
mod stack;
mod step;
mod uses;
mod value;
mod walk;

pub use fields::Layout;
pub use flow::{Entry, analyse};
pub use follow::follow;
pub use found::{Found, Place, Survey};
pub use helpers::Helpers;
pub use insn::Insn;
pub use programs::Program;
pub use scanner::Scanner;
pub use uses::{Carrier, FieldUse, Use};
