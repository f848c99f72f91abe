//! Interfaces that are not hooked yet, because the CNI may still be at work on them.
//!
//! A clsact qdisc keeps an `ingress` qdisc out. The CNI plugin `bandwidth` adds one while the pod
//! is made; if it cannot, the pod does not start (aws-network-policy-agent #68). Chains of CNI
//! plugins end within seconds. TCX links have no qdisc, so they come at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Which interfaces wait, and until when.
#[derive(Debug)]
pub struct HookDelay {
    delay: Duration,
    /// True once the start is over. The CNI has finished with interfaces that existed before the
    /// agent.
    settled: bool,
    until: BTreeMap<u32, Instant>,
}

impl HookDelay {
    /// Without waiting interfaces. None waits before [`HookDelay::settled`], and none ever waits
    /// with a delay of 0.
    pub fn new(delay: Duration) -> Self {
        Self {
            delay,
            settled: false,
            until: BTreeMap::new(),
        }
    }

    /// The start is over: interfaces that appear from now on are new.
    pub fn settled(&mut self) {
        self.settled = true;
    }

    /// True if an interface that is new, or has another name or role, has to wait. Its wait begins
    /// once.
    pub fn has_to_wait(&mut self, ifindex: u32) -> bool {
        if !self.settled || self.delay.is_zero() {
            return false;
        }
        let until = *self
            .until
            .entry(ifindex)
            .or_insert_with(|| Instant::now() + self.delay);
        Instant::now() < until
    }

    /// True if the interface may be hooked now.
    pub fn is_over(&self, ifindex: u32) -> bool {
        self.until
            .get(&ifindex)
            .is_none_or(|until| Instant::now() >= *until)
    }

    /// Drops the wait of a deleted interface: another interface may get its number.
    pub fn gone(&mut self, ifindex: u32) {
        self.until.remove(&ifindex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interfaces_that_appear_after_the_start_wait() {
        let mut waiting = HookDelay::new(Duration::from_mins(1));
        assert!(!waiting.has_to_wait(1));
        waiting.settled();
        assert!(waiting.has_to_wait(2) && !waiting.is_over(2));
        assert!(waiting.is_over(1));
        let mut without_delay = HookDelay::new(Duration::ZERO);
        without_delay.settled();
        assert!(!without_delay.has_to_wait(2) && without_delay.is_over(2));
        // A wait begins once, and ends with its interface.
        let mut waiting = HookDelay::new(Duration::from_millis(20));
        waiting.settled();
        assert!(waiting.has_to_wait(2));
        std::thread::sleep(Duration::from_millis(25));
        assert!(!waiting.has_to_wait(2) && waiting.is_over(2));
        waiting.gone(2);
        assert!(waiting.has_to_wait(2));
    }
}
