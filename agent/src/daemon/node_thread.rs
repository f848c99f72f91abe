//! The thread that attaches programs, and looks at what other programs of the node do. Its calls
//! wait for locks of the kernel that others may hold for seconds (RTNL). So it is not the thread of
//! the loop, which has a lease to renew.
//!
//! ```text
//! netlink -> router -> NodeEvent -> the loop (facts, roles)
//!                   \> Order     -> this thread -> Snapshot -> the loop (INTERFACES, VIEW, status)
//! ```

mod router;
mod work;

pub use router::{NodeEvent, route};
pub use work::NodeWork;

use crate::shared::status::{Attachment, SocketLb, Translators as ShownTranslators, Unanswered};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// The log names a thread that has not answered for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the thread is asked to do.
#[derive(Debug)]
pub enum Order {
    /// Hook what appeared, or drop what is gone.
    Event(NodeEvent),
    /// Flows are redirected from now on, or may be; or no longer.
    Redirect(bool),
    /// Do the periodic work.
    Tick,
    /// End.
    End,
}

/// Everything that the thread has done and found so far.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Ticks that were carried out.
    pub ticks: u64,
    /// The number of the last event that was carried out.
    pub event: u64,
    /// The selected interfaces, ascending.
    pub interfaces: Vec<Interface>,
    /// Interfaces at which packets may enter the stack in the name of an endpoint, each with the
    /// number of the event that announced it.
    pub entrances: BTreeMap<u32, u64>,
    /// Where they may not, and why.
    pub unanswered: Vec<Unanswered>,
    /// Whether every interface that existed at the start is hooked, or could not be hooked.
    pub settled: bool,
    /// The socket load balancer of the node.
    pub socket_lb: SocketLb,
    /// Whether it was told that flows are redirected, and every selected interface has the ingress
    /// hook, as far as events were carried out.
    pub translates_replies: bool,
    /// Whether every packet of a call that it translates meets a hook, as far as events were
    /// carried out.
    pub hooks_everywhere: bool,
    /// What records the Service that packets were aimed at.
    pub translators: Translators,
}

/// A selected interface.
#[derive(Debug, Clone, Default)]
pub struct Interface {
    /// The number of the event that announced it.
    pub event: u64,
    /// Its hooks.
    pub shown: Attachment,
}

/// What records the Service that packets were aimed at.
#[derive(Debug, Clone, Default)]
pub struct Translators {
    /// Where a conntrack entry lies in `struct nf_conn`: 0 if it cannot be known, none while that
    /// is looked for.
    pub entry_at: Option<u32>,
    /// Whether Cilium's maps are looked up.
    pub cilium: bool,
    /// For the status.
    pub shown: ShownTranslators,
    /// Why no packet shows its Service; none if some do.
    pub unreadable: Option<String>,
}

impl Snapshot {
    /// Errors: no interface can be hooked.
    pub fn require_hook(&self) -> Result<()> {
        let mut interfaces = self.interfaces.iter();
        let error = interfaces.find_map(|interface| interface.shown.error.as_deref());
        match error.filter(|_| {
            !self
                .interfaces
                .iter()
                .any(|interface| interface.shown.attached)
        }) {
            Some(first) => {
                bail!("no interface can be hooked, so nothing would be enforced: {first}")
            }
            None => Ok(()),
        }
    }

    /// Errors: this kernel shows no record of any translator, so that no denial of a Service could
    /// be enforced.
    pub fn require_record(&self) -> Result<()> {
        match &self.translators.unreadable {
            Some(why) => bail!("nothing would be enforced, as no packet shows its Service: {why}"),
            None => Ok(()),
        }
    }
}

/// What the thread does with its orders.
pub trait Work: Send + 'static {
    /// Carries out an order. Errors: the agent has to end, for this reason.
    fn carry_out(&mut self, order: Order) -> Result<()>;

    /// What was done and found so far.
    fn snapshot(&self) -> Snapshot;
}

/// The loop's end of the thread.
#[derive(Debug)]
pub struct NodeThread {
    orders: Sender<Order>,
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
        let run = move || drop(end.send(run(work, &ordered, &show)));
        thread::Builder::new()
            .name("hooks".into())
            .spawn(run)
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
    pub fn orders(&self) -> Sender<Order> {
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
            let _ = self.orders.send(Order::Tick);
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
        if std::mem::replace(&mut self.redirects, redirects) != redirects {
            let _ = self.orders.send(Order::Redirect(redirects));
        }
    }

    /// Ends the thread after what was ordered before.
    pub fn end(&self) {
        let _ = self.orders.send(Order::End);
    }

    fn is_idle(&self) -> bool {
        self.seen.ticks == self.ticks
    }
}

fn run<W: Work>(
    mut work: W,
    orders: &Receiver<Order>,
    show: &watch::Sender<Arc<Snapshot>>,
) -> Result<W> {
    while let Ok(order) = orders.recv() {
        if matches!(order, Order::End) {
            break;
        }
        work.carry_out(order)?;
        show.send_replace(Arc::new(work.snapshot()));
    }
    Ok(work)
}
