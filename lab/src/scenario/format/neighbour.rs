//! Another program beside epguard.

use serde::Deserialize;

use crate::neighbour::{Kind, Place};

/// The neighbour of a story. It hooks all pods of node-a.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Neighbour {
    pub kind: Kind,
    #[serde(default)]
    pub place: Place,
    #[serde(default)]
    pub forbids: Vec<Forbidden>,
    pub first: Option<First>,
}

/// Calls that the neighbour's policy drops, over TCP and UDP.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Forbidden {
    pub from: String,
    pub to: String,
    pub port: Option<u16>,
}

/// Which program starts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum First {
    Neighbour,
    Epguard,
    Later,
}

/// An event of the neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NeighbourStep {
    Starts,
    Restarts,
    Killed,
    Stops,
}

/// Modes in which the neighbour's policy forbids a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForbiddenIn {
    EveryMode,
    Enforce,
}
