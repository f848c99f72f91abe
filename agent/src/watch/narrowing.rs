//! A large collection of which one object is watched, and the others are listed from time to time. Nodes are such: each writes its
//! status every few minutes, and in a large cluster each of these changes would go to each agent.

use super::collection::Collection;
use std::time::Duration;
use tokio::time::Instant;

/// Mean time after which everything is listed again.
pub(super) const AGAIN: Duration = Duration::from_hours(1);

/// The object to watch, and when.
#[derive(Debug, Clone)]
pub(super) struct Narrowing {
    name: String,
    /// More objects than this are not watched.
    most: usize,
    /// When to list everything again; none while everything is watched.
    again: Option<Instant>,
}

impl Narrowing {
    /// Watches the object of this name alone where there are more than `most`.
    pub(super) fn to(name: &str, most: usize) -> Self {
        Self {
            name: name.to_owned(),
            most,
            again: None,
        }
    }

    /// Decides by the number of all objects. True if one alone is to be watched from now on. All agents draw the moment of their
    /// next list apart from each other.
    pub(super) fn counted(&mut self, count: usize) -> bool {
        self.again = (count > self.most).then(|| Instant::now() + AGAIN.mul_f64(0.5 + fastrand::f64()));
        self.again.is_some()
    }

    /// The object alone, where only that is watched.
    pub(super) fn narrow(&self, all: &Collection) -> Option<Collection> {
        self.again.map(|_| all.only(&self.name))
    }

    /// When everything is to be listed again; none where everything is watched.
    pub(super) const fn again(&self) -> Option<Instant> {
        self.again
    }
}
