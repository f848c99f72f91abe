//! What the API server can bear: a model of its seats and of its link.
//!
//! Seats, queue and wait are those that API Priority and Fairness gives all service accounts together by default (priority level
//! `workload-low`: 100 of 245 shares of 600 seats), and one account of them: 6 queues of 50.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

pub(crate) const SEATS: usize = 245;
pub(crate) const QUEUE: usize = 300;
/// Longest wait in the queue.
pub(crate) const QUEUED: Duration = Duration::from_secs(15);
/// What each request takes, besides its octets.
pub(crate) const EACH: Duration = Duration::from_millis(5);
/// Octets a second to all clients.
pub(crate) const LINK: f64 = 1e9;
/// What the link sends ahead of time: fewer timers.
const AHEAD: Duration = Duration::from_millis(10);

pub(crate) struct Capacity {
    seats: Arc<Semaphore>,
    /// Places to wait for seats.
    queue: Semaphore,
    /// When the link will have sent everything.
    free: Mutex<Instant>,
}

pub(crate) type Seats = OwnedSemaphorePermit;

impl Capacity {
    pub(crate) fn new() -> Self {
        Self {
            seats: Arc::new(Semaphore::new(SEATS)),
            queue: Semaphore::new(QUEUE),
            free: Mutex::new(Instant::now()),
        }
    }

    /// Waits for seats. None: the server refuses the request with 429.
    pub(crate) async fn enter(&self, seats: u32) -> Option<Seats> {
        if let Ok(free) = Arc::clone(&self.seats).try_acquire_many_owned(seats) {
            return Some(free);
        }
        let _place = self.queue.try_acquire().ok()?;
        let wait = Arc::clone(&self.seats).acquire_many_owned(seats);
        timeout(QUEUED, wait).await.ok()?.ok()
    }

    /// Returns when the link has sent so many octets.
    pub(crate) async fn send(&self, octets: usize) {
        let now = Instant::now();
        let free = {
            let mut free = self.free.lock().unwrap();
            *free = (*free).max(now) + Duration::from_secs_f64(as_f64(octets) / LINK);
            *free
        };
        let wait = free.duration_since(now).saturating_sub(AHEAD);
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "octets below 2^53")]
pub(crate) fn as_f64(number: usize) -> f64 {
    number as f64
}
