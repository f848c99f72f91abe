//! Flows that stay open.

use std::time::Duration;

use super::Answer;

/// A connected TCP or UDP socket.
#[derive(Debug)]
pub struct Flow {}

impl Flow {
    /// Makes a request on the flow and waits for the reply.
    pub fn ask(&mut self, timeout: Duration) -> Answer {
        let _ = timeout;
        todo!()
    }
}
