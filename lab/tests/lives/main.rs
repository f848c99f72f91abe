//! The whole agent under traffic: IPs that are handed on before any API object shows it, agents that come and go, lists that lie.

#[cfg(test)]
mod forged;
#[cfg(test)]
mod pelting;
#[cfg(test)]
mod poisoned;
#[cfg(test)]
mod reuse;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod upgrade;
