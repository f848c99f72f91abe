//! The whole agent under traffic: IPs that are reused before any API object shows it, agents that
//! restart, false lists.

mod forged;
pub mod pelting;
mod poisoned;
mod reuse;
mod takeover;
mod under_way;
