//! The programs in test runs, as the agent's tests make them.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests use the rest, and may panic"
)]

#[path = "../../agent/tests/kernel/programs/counted.rs"]
pub mod counted;
#[path = "../../agent/tests/kernel/programs/frames.rs"]
pub mod frames;
#[path = "../../agent/tests/kernel/programs/kernel.rs"]
pub mod kernel;
#[path = "../../agent/tests/kernel/programs/rig.rs"]
pub mod rig;
#[path = "../../agent/tests/kernel/programs/tracked.rs"]
pub mod tracked;
#[path = "../../agent/tests/kernel/programs/wire.rs"]
pub mod wire;
#[path = "../../agent/tests/kernel/programs/world.rs"]
pub mod world;
