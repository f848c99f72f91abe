//! The way of a fact or a list through the state.

mod apply;
pub(in crate::state) mod judge;
mod lists;
mod revival;
mod synced;

pub(in crate::state) use lists::Task;
pub(in crate::state) use revival::Revivals;
pub(in crate::state) use synced::Synced;
