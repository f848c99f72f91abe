//! Reads the programs' reports: denied, or would-be denied, packets.

mod budget;

pub use budget::Budget;

use anyhow::{Context as _, Result};
use aya::maps::{MapData, RingBuf};
use epguard_common::Event;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// Events taken at a time, about as many as the ring has room for.
pub const MOST: usize = 2048;

/// Events in one reading that count as a flood; fewer are read as they come.
const MANY: usize = 64;

/// Pause between two readings during a flood; the ring buffers events meanwhile.
const REST: Duration = Duration::from_millis(20);

/// The ring buffer, read without polling.
pub struct Events {
    ring: AsyncFd<RingBuf<MapData>>,
    /// The ring is not read before this time.
    rests_until: Instant,
}

impl Events {
    /// Takes the ring of a loaded object.
    pub fn new(ebpf: &mut aya::Ebpf) -> Result<Self> {
        let ring = ebpf
            .take_map("EVENTS")
            .context("the eBPF object has no map EVENTS")?;
        let ring = RingBuf::try_from(ring).context("EVENTS is no ring buffer")?;
        // SAFETY: the ring owns its file descriptor, never closes or replaces it while it lives,
        // and lives in the AsyncFd.
        let ring = unsafe { AsyncFd::register(ring) }.context("cannot wait for EVENTS")?;
        Ok(Self {
            ring,
            rests_until: Instant::now(),
        })
    }

    /// Waits for reports and takes at most [`MOST`]. Safe to cancel: every report that was taken is
    /// returned.
    pub async fn next(&mut self) -> Result<Vec<Event>> {
        sleep_until(self.rests_until).await;
        loop {
            let mut guard = self
                .ring
                .readable_mut()
                .await
                .context("cannot wait for EVENTS")?;
            let ring = guard.get_inner_mut();
            let mut events = Vec::new();
            for _ in 0..MOST {
                let Some(item) = ring.next() else {
                    guard.clear_ready();
                    break;
                };
                events.extend(parse(&item));
            }
            if !events.is_empty() {
                if events.len() >= MANY {
                    self.rests_until = Instant::now() + REST;
                }
                return Ok(events);
            }
        }
    }
}

/// Prints what the programs log with `--debug-datapath`.
pub fn log(ebpf: &mut aya::Ebpf) -> Result<impl Future<Output = ()> + use<>> {
    let logger = aya_log::EbpfLogger::init(ebpf).context("the eBPF object logs nothing")?;
    // SAFETY: as for EVENTS.
    let mut logger =
        unsafe { AsyncFd::register(logger) }.context("cannot wait for the datapath's log")?;
    Ok(async move {
        while let Ok(mut guard) = logger.readable_mut().await {
            guard.get_inner_mut().flush();
            guard.clear_ready();
        }
    })
}

/// Reads an event; `None` if it is of another size, as from another version of the programs.
pub fn parse(bytes: &[u8]) -> Option<Event> {
    if bytes.len() != size_of::<Event>() {
        return None;
    }
    // SAFETY: as many octets as an Event has, which is `repr(C)` and made of integers only;
    // unaligned reads are asked for.
    Some(unsafe { bytes.as_ptr().cast::<Event>().read_unaligned() })
}
