//! Flows that are steered to a live endpoint, in bulk: nothing is lost, mixed up or left behind.

#[cfg(test)]
mod bulk;
#[cfg(test)]
mod capture;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod life;
#[cfg(test)]
mod masqueraded;
#[cfg(test)]
mod place;
#[cfg(test)]
mod ports;
#[cfg(test)]
mod share;
