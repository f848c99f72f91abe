//! `epguard`: the node agent and its command line.
fn main() {}
