//! The object behind a step of the loop that took long: it kept all others waiting.

use std::time::Duration;
use tokio::time::Instant;

/// Steps that take longer are logged.
const LONG: Duration = Duration::from_millis(100);
/// Most lines: one in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// When the last line was logged, and how many were left out since.
#[derive(Debug, Default)]
pub struct SlowSteps {
    logged: Option<Instant>,
    left_out: usize,
}

impl SlowSteps {
    /// Logs a step that began then, if it took long. `object` names what it was about.
    pub fn log_if_slow(&mut self, began: Instant, object: impl FnOnce() -> String) {
        let took = began.elapsed();
        if took < LONG {
            return;
        }
        if self.logged.is_some_and(|logged| logged.elapsed() < PAUSE) {
            self.left_out += 1;
            return;
        }
        self.logged = Some(Instant::now());
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let left_out = std::mem::take(&mut self.left_out);
        let object = object();
        tracing::warn!(
            object,
            took_ms,
            left_out,
            "a step of the main loop took long: all others waited for it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_took_long_is_logged_once_a_second_and_the_others_are_counted() {
        let mut steps = SlowSteps::default();
        let mut logged = 0;
        let now = Instant::now();
        for ago in [Duration::ZERO, LONG, LONG, LONG] {
            steps.log_if_slow(now.checked_sub(ago).unwrap(), || {
                logged += 1;
                String::new()
            });
        }
        assert_eq!((logged, steps.left_out), (1, 2));
    }
}
