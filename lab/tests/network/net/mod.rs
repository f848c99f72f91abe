//! The lab's network on the real kernel: the properties that stories rely on.

pub(crate) mod cluster;
mod network;
mod service;
