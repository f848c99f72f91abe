//! The whole agent under traffic: IPs that are handed on before any API object shows it, agents that come and go, lists that lie.

mod forged;
pub mod pelting;
mod poisoned;
mod reuse;
mod takeover;
mod upgrade;
