//! The way of a fact or a list through the state.

mod apply;
pub mod judge;
mod lists;
mod revival;

pub use judge::Piece;
pub use lists::List;
pub use revival::Revivals;
