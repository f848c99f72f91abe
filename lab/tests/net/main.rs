//! The lab's network against the real kernel: what the stories take for granted.

#[cfg(test)]
mod cluster;
mod namespace;
mod network;
mod service;
