//! Interfaces that come, go, move and change their names under a running agent: hooked at once, nothing denied wrongly.

#[cfg(test)]
mod announced;
#[cfg(test)]
mod holder;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod node;
#[cfg(test)]
mod overrun;
#[cfg(test)]
#[path = "../lives/pelting.rs"]
mod pelting;
