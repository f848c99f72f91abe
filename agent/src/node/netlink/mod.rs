//! The node's interfaces and local addresses, as the kernel reports them.

/// A closure that takes what one form of an enum holds, and nothing of others.
macro_rules! only {
    ($($form:pat $(if $holds:expr)? => $taken:expr),+) => {
        |it| match it {
            $($form $(if $holds)? => Some($taken),)+
            _ => None,
        }
    };
}
pub(crate) use only;

mod evidence;
mod follow;
#[cfg(test)]
mod fuzz;
mod interface;
pub mod netfilter;
mod network_change;
mod presence;
pub mod request;
mod roles;
pub(crate) mod route;
#[cfg(test)]
mod tests;

pub use follow::follow;
pub use interface::Interface;
pub use network_change::NetworkChange;
pub use presence::presence;
pub use roles::{RawRole, Role, Roles, Selection};
pub use route::tables;
