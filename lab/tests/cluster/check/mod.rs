//! `kubectl epguard check` against the lab's API server, with pods that run.

mod faults;
mod interrupted;
pub(crate) mod rig;
mod second;
mod well;
