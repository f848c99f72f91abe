//! The way of a fact or a list through the state.

pub(in crate::state) mod apply;
pub(in crate::state) mod confirm;
pub(in crate::state) mod lists;
pub(in crate::state) mod revival;
pub(in crate::state) mod settle;
pub(in crate::state) mod synced;

pub(in crate::state) use lists::Task;
pub(in crate::state) use revival::Revivals;
pub(in crate::state) use synced::Synced;
