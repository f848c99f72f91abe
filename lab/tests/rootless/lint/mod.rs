//! `epguard lint`: over the recordings of a real cluster, and as a process against the embedded API server. No root.

mod process;
mod traces;
