//! The commands of an operator on one node: one module for each verb.

pub mod action;
pub mod audit;
pub mod breaker;
pub mod check_pod;
pub mod completion;
pub mod detach;
pub mod drops;
pub mod dump;
pub mod lint;
pub mod mode;
pub mod status;
pub mod sysdump;
pub mod why;
