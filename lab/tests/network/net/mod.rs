//! The lab's network against the real kernel: what the stories take for granted.

mod cluster;
mod namespace;
mod network;
mod service;
