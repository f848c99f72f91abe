//! Flows that are steered to a live endpoint, in bulk: nothing is lost, mixed up or left behind.

mod bulk;
mod capture;
mod flood;
mod forged;
mod life;
mod masqueraded;
mod place;
mod ports;
mod share;
