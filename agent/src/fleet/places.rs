//! A bounded number of nodes at a time.

use std::pin::pin;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A node makes room for the next one after this share of the time that it has. So nodes that are dead delay the others by
/// little, and at most so many times the number of places are in work at once.
const SHARE: u32 = 5;

/// Places for nodes.
#[derive(Debug)]
pub struct Places {
    free: Semaphore,
    /// Longest time that a node keeps its place.
    kept: Duration,
    patience: Duration,
}

impl Places {
    /// So many places, for work that takes no longer than `patience`.
    pub fn new(count: u16, patience: Duration) -> Self {
        Self {
            free: Semaphore::new(count.max(1).into()),
            kept: patience / SHARE,
            patience,
        }
    }

    /// The same, and no place is kept for longer than this.
    pub fn kept_for(mut self, longest: Duration) -> Self {
        self.kept = self.kept.min(longest);
        self
    }

    /// Waits for a place, and then for the work. Errors: those of the work, or that it takes too long.
    pub async fn run<T, E: From<String>>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let place = self.free.acquire().await;
        let mut done = pin!(timeout(self.patience, work));
        let soon = timeout(self.kept, &mut done).await;
        drop(place);
        let done = match soon {
            Ok(done) => done,
            Err(_) => done.await,
        };
        done.unwrap_or_else(|_| Err(late(self.patience).into()))
    }
}

/// A node that took too long.
pub fn late(patience: Duration) -> String {
    format!("no answer within {} s", patience.as_secs())
}
