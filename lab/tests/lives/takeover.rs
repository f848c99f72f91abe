//! Agents that are killed and come back, under traffic.
