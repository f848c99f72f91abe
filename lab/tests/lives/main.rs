//! The whole agent under traffic: IPs that are handed on before any API object shows it, and agents that come and go.

#[cfg(test)]
mod pelting;
#[cfg(test)]
mod reuse;
#[cfg(test)]
mod takeover;
