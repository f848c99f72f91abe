//! The thread that attaches programs, and looks at what other programs of the node do. Its calls
//! wait for locks of the kernel that others may hold for seconds (RTNL). So it is not the thread of
//! the loop, which has a lease to renew.
//!
//! ```text
//! netlink -> router -> NodeEvent -> the loop (facts, roles)
//!                   \> NodeOrder -> this thread -> Snapshot -> the loop (INTERFACES, VIEW, status)
//! ```

mod order;
mod router;
mod snapshot;

pub use order::{NodeEvent, NodeOrder};
pub use router::route;
pub use snapshot::{HookedInterface, Snapshot, TranslatorSnapshot};

use anyhow::{Context as _, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// The log names a thread that has not answered for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the thread does with its orders.
pub trait Work: Send + 'static {
    /// Carries out an order. Errors: the agent has to end, for this reason.
    fn carry_out(&mut self, order: NodeOrder) -> Result<()>;

    /// What was done and found so far.
    fn snapshot(&self) -> Snapshot;
}

/// The loop's end of the thread.
#[derive(Debug)]
pub struct NodeThread {
    orders: Sender<NodeOrder>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    /// The last snapshot that the loop took.
    pub seen: Arc<Snapshot>,
    ticks: u64,
    asked: Instant,
    is_late: bool,
    redirects: bool,
}

impl NodeThread {
    /// Starts the thread. The receiver gets the work back once the thread ends, or the error that
    /// ended it.
    pub fn start<W: Work>(work: W) -> Result<(Self, oneshot::Receiver<Result<W>>)> {
        let (orders, ordered) = channel();
        let seen = Arc::new(work.snapshot());
        let (show, snapshots) = watch::channel(seen.clone());
        let (end, ended) = oneshot::channel();
        thread::Builder::new()
            .name("hooks".into())
            .spawn(move || {
                let result = carry_out_orders(work, &ordered, &show);
                // Without a receiver the agent has ended.
                let _ = end.send(result);
            })
            .context("cannot start a thread for the hooks")?;
        let asked = Instant::now();
        let thread = Self {
            orders,
            snapshots,
            seen,
            ticks: 0,
            asked,
            is_late: false,
            redirects: false,
        };
        Ok((thread, ended))
    }

    /// Orders from elsewhere.
    pub fn orders(&self) -> Sender<NodeOrder> {
        self.orders.clone()
    }

    /// Shows when there is a new snapshot.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// Takes the last snapshot.
    pub fn look(&mut self) {
        self.seen = self.snapshots.borrow_and_update().clone();
        if self.is_late && self.is_idle() {
            self.is_late = false;
            let seconds = self.asked.elapsed().as_secs();
            tracing::info!(
                seconds,
                "the kernel has answered: interfaces are hooked again as they appear"
            );
        }
    }

    /// Orders the periodic work, if the loop has written the result of the last one: what the
    /// thread does to a socket load balancer's hooks needs that.
    pub fn tick(&mut self) {
        if self.is_idle() {
            self.ticks += 1;
            self.asked = Instant::now();
            // Where the thread has ended, so does the agent.
            let _ = self.orders.send(NodeOrder::Tick);
        } else if !self.is_late && self.asked.elapsed() >= PATIENCE {
            self.is_late = true;
            tracing::warn!(
                seconds = self.asked.elapsed().as_secs(),
                "the kernel does not let epguard hook interfaces: another program holds the lock of network interfaces; \
                 packets at new interfaces pass unseen meanwhile"
            );
        }
    }

    /// Tells the thread whether flows are redirected or may be, if that has changed.
    pub fn redirect(&mut self, redirects: bool) {
        if self.redirects != redirects {
            self.redirects = redirects;
            let _ = self.orders.send(NodeOrder::Redirect(redirects));
        }
    }

    /// Ends the thread after what was ordered before.
    pub fn end(&self) {
        let _ = self.orders.send(NodeOrder::End);
    }

    fn is_idle(&self) -> bool {
        self.seen.ticks == self.ticks
    }
}

fn carry_out_orders<W: Work>(
    mut work: W,
    orders: &Receiver<NodeOrder>,
    show: &watch::Sender<Arc<Snapshot>>,
) -> Result<W> {
    while let Ok(order) = orders.recv() {
        if matches!(order, NodeOrder::End) {
            break;
        }
        work.carry_out(order)?;
        show.send_replace(Arc::new(work.snapshot()));
    }
    Ok(work)
}
