//! Registers and stack, as the analysis knows them at one instruction.

use super::stack::Stack;
use super::value::Value;

/// Registers and stack at one instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// r0 to r10, and the register of constant blinding.
    pub registers: [Value; 12],
    /// The stack of this function.
    pub stack: Stack,
}
