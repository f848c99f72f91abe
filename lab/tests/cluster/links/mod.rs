//! Interfaces that come, go, move and change their names under a running agent: hooked at once, without a wrong denial.

mod holder;
mod hooks;
mod node;

use super::lives::pelting;
