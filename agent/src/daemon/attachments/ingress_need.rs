//! When interfaces have the ingress hook: while a packet may need it. That is a reply of a
//! redirected flow, and a packet of a socket that a load balancer has connected.

use std::time::{Duration, Instant};

/// How long the hooks stay once nothing needs them.
const STAY: Duration = Duration::from_mins(10);

/// What needs the ingress hook.
#[derive(Debug, Default)]
pub struct IngressNeed {
    /// Flows are redirected, or may be.
    pub redirects: bool,
    /// A socket load balancer is on the node.
    pub socket_lb: bool,
    last: Option<Instant>,
}

impl IngressNeed {
    /// Something has needed the hooks until now: they are there.
    pub fn until(now: Instant) -> Self {
        Self {
            last: Some(now),
            ..Self::default()
        }
    }

    /// Whether the hooks are to be there now.
    pub fn is_there(&mut self, now: Instant) -> bool {
        if self.redirects || self.socket_lb {
            self.last = Some(now);
        }
        self.last
            .is_some_and(|last| now.duration_since(last) < STAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingress_hooks_come_with_the_first_need_and_go_ten_minutes_after_the_last() {
        let begin = Instant::now();
        let minutes = |minutes| begin + Duration::from_mins(minutes);
        let mut need = IngressNeed::default();
        assert!(!need.is_there(minutes(0)));
        need.redirects = true;
        assert!(need.is_there(minutes(1)));
        need.redirects = false;
        need.socket_lb = true;
        assert!(need.is_there(minutes(20)));
        need.socket_lb = false;
        assert!(need.is_there(minutes(29)));
        assert!(!need.is_there(minutes(30)));
    }

    #[test]
    fn what_an_earlier_process_may_have_needed_keeps_the_hooks_for_ten_minutes() {
        let begin = Instant::now();
        let mut need = IngressNeed::until(begin);
        assert!(need.is_there(begin + Duration::from_mins(9)));
        assert!(!need.is_there(begin + STAY));
    }
}
