//! One history, from the first list to the quiet at its end.

use super::*;
use std::collections::BTreeSet;

/// Longer than the ten minutes for which an agent keeps the UIDs that slices listed, and its next
/// check.
const FORGOTTEN: Duration = Duration::from_mins(11);
/// How often the agent's loop ticks where nothing but time happens.
const SLOW_TICK: Duration = Duration::from_secs(5);

struct Run {
    world: World,
    kernel: Kernel,
    agent: Option<Agent>,
    client: kube::Client,
    suspicions: Suspicions,
    debts: Debts,
    /// Since when the agent is away, or knows too little.
    blind: checks::Blind,
    /// When it comes back.
    back: Option<Instant>,
    netlink: bool,
    /// Whether an agent has ever listed everything.
    has_synced: bool,
    /// Every (Service, IP, UID) that a slice listed: proxies and connections may still use any of
    /// them.
    aimed: Vec<(Service, Ip, String)>,
    seen: Seen,
}

/// What a history showed, so that a model that shows nothing is noticed.
pub type Seen = BTreeSet<&'static str>;

/// Plays a history on a clock of its own. An error says what is wrong.
pub fn play(history: &History, seed: u64) -> Result<Seen, String> {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        agent::begin();
        let mut run = Run::new(history);
        run.play(history).await?;
        Ok(run.seen)
    })
}

impl Run {
    fn new(history: &History) -> Self {
        let world = World::new(history.setup, history.is_faultless());
        let client = world.api.client();
        let convicted = history
            .setup
            .convicted
            .map(|number| &world.services[number]);
        let convicted =
            convicted.map(|service| (service.namespace.to_owned(), service.name.to_owned()));
        let kernel = Kernel::after(convicted.into_iter().collect());
        let agent = Agent::start(&client, &kernel, history.setup.costs);
        Self {
            world,
            kernel,
            agent: Some(agent),
            client,
            suspicions: Suspicions::default(),
            debts: Debts::default(),
            blind: Some(Instant::now()),
            back: None,
            netlink: true,
            has_synced: false,
            aimed: Vec::new(),
            seen: Seen::new(),
        }
    }

    async fn play(&mut self, history: &History) -> Result<(), String> {
        self.wait(Duration::from_millis(100)).await?;
        for (after, op) in &history.ops {
            self.wait(Duration::from_millis((*after).into())).await?;
            match op {
                Op::Restart(away) => {
                    if self.agent.is_some() {
                        for denied in self.kernel.in_force() {
                            if let (Some(vip), Some(dead)) = (denied.vip, denied.dead) {
                                self.world.kept.insert((vip, denied.ip, dead));
                            }
                        }
                    }
                    self.agent = None;
                    self.blind = self.blind.or_else(|| Some(Instant::now()));
                    self.back = Some(Instant::now() + Duration::from_millis((*away).into()));
                }
                Op::Netlink(tells) => self.netlink = *tells,
                Op::Call => {
                    if let Some(agent) = &mut self.agent {
                        agent.on_calls(&self.kernel);
                    }
                }
                op => {
                    if matches!(op, Op::Restore(_) | Op::Address(..)) {
                        self.world.kept.clear();
                    }
                    self.world.take(op);
                    if !matches!(op, Op::Flood(..)) {
                        self.debts.restart();
                    }
                }
            }
            self.note_aims();
            if op.is_fault() {
                self.debts.disturb(op.settles_within());
            }
            self.check()?;
        }
        self.wait(Duration::from_secs(history.setup.linger.into()))
            .await?;
        self.world.agenda.clear();
        self.world.flow();
        self.world.outage(false);
        self.netlink = true;
        let lists = if self.has_used_a_share() {
            SHARE_RETURNS
        } else {
            Duration::ZERO
        };
        self.quiet(
            history.settles_within() + history.setup.costs.backlog() + lists,
            history.setup,
        )
        .await?;
        if checks::provable(&self.world, &self.aimed).next().is_some() {
            self.seen.insert("provable at the end");
        }
        match checks::missing(&self.world, &self.kernel, &self.aimed) {
            Some((service, ip)) => Err(self.not_denied(&service, ip)),
            None if history.setup.converge => self.converge().await,
            None => Ok(()),
        }
    }

    /// Lets all be quiet for as long as what is provable may take to be denied, or until it is.
    async fn quiet(&mut self, longest: Duration, setup: Setup) -> Result<(), String> {
        let end = Instant::now() + longest;
        while Instant::now() < end {
            let left = end - Instant::now();
            if setup.patient || setup.converge {
                self.wait(left).await?;
            } else if checks::missing(&self.world, &self.kernel, &self.aimed).is_some()
                || left == longest
            {
                self.wait(DUE.min(left)).await?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// An agent that only knows the end must come to the same maps as the one that saw all of it.
    async fn converge(&mut self) -> Result<(), String> {
        if let Some(agent) = &mut self.agent {
            agent.tick_every(SLOW_TICK);
        }
        self.wait(FORGOTTEN).await?;
        // What rests on having seen all of it, the next agent cannot know.
        self.world.faultless = false;
        let before = checks::lasting(&self.world, &self.kernel);
        let convicted = std::mem::take(&mut self.kernel.convicted);
        self.kernel = Kernel::after(convicted);
        self.agent = None;
        self.world.kept.clear();
        self.debts.disturb(AFTER_FAULT);
        self.agent = Some(Agent::start(
            &self.client,
            &self.kernel,
            self.world.setup.costs,
        ));
        self.look();
        self.check()?;
        self.wait(AFTER_FAULT).await?;
        let after = checks::lasting(&self.world, &self.kernel);
        if !after.is_empty() {
            self.seen.insert("converged");
        }
        if before == after {
            return Ok(());
        }
        Err(format!(
            "{before:?} is denied at the end, and {after:?} by an agent that starts then"
        ))
    }

    async fn wait(&mut self, duration: Duration) -> Result<(), String> {
        let end = Instant::now() + duration;
        loop {
            let wakes = [self.back, self.world.agenda.next()];
            let next = wakes.into_iter().flatten().fold(end, Instant::min);
            let turn = if let Some(agent) = &mut self.agent {
                tokio::select! {
                    biased;
                    turn = agent.next() => Some(turn),
                    () = until(next) => None,
                }
            } else {
                until(next).await;
                None
            };
            if let Some(turn) = turn {
                self.take_turn(turn)?;
                continue;
            }
            while let Some(chore) = self.world.agenda.take() {
                self.world.carry_out(chore);
                if !matches!(chore, Chore::Flood(..)) {
                    self.note_aims();
                    self.debts.restart();
                    self.check()?;
                }
            }
            let now = Instant::now();
            if self.back.take_if(|back| *back <= now).is_some() {
                self.agent = Some(Agent::start(
                    &self.client,
                    &self.kernel,
                    self.world.setup.costs,
                ));
            }
            if now >= end {
                return Ok(());
            }
        }
    }

    fn take_turn(&mut self, turn: Next) -> Result<(), String> {
        let Some(agent) = &mut self.agent else {
            return Ok(());
        };
        match turn {
            Next::Begin(input) => {
                if matches!(input, Input::Tick) {
                    // Leases of nodes are written all the time.
                    self.world.api.store().revision += 1;
                }
                let routes = self.netlink.then(|| self.world.cluster.routes(0));
                agent.begin(&mut self.kernel, input, routes);
            }
            Next::End => agent.end(&mut self.kernel),
        }
        self.look();
        self.check()
    }

    /// Whether the agent has listed everything.
    fn look(&mut self) {
        let sees = self.agent.as_ref().is_some_and(Agent::is_synced);
        self.blind = if sees {
            None
        } else {
            self.blind.or_else(|| Some(Instant::now()))
        };
    }

    fn check(&mut self) -> Result<(), String> {
        let in_force = self.kernel.in_force();
        self.seen
            .extend(in_force.iter().map(|denied| denied.reason));
        self.world.note_convicted(&self.kernel.convicted);
        self.suspicions
            .check(&self.world, &self.kernel, self.blind, self.agent.as_ref())?;
        self.has_synced |= self.blind.is_none();
        if !self.has_synced {
            return Ok(());
        }
        let costs = self.world.setup.costs;
        let is_crowded = !costs.keep_up() && self.agent.as_ref().is_some_and(Agent::is_late);
        let fault = self.blind.is_some()
            || self.world.api.store().is_late()
            || is_crowded
            || self.has_used_a_share();
        let provable: Vec<(Service, Ip)> = if fault {
            Vec::new()
        } else {
            checks::provable(&self.world, &self.aimed).collect()
        };
        let checked = self.debts.check(&provable, &in_force, fault, costs);
        checked.map_err(|(service, ip)| format!("for some time, {}", self.not_denied(&service, ip)))
    }

    fn has_used_a_share(&self) -> bool {
        self.agent.as_ref().is_some_and(Agent::has_used_a_share)
    }

    fn not_denied(&self, service: &Service, ip: Ip) -> String {
        let view = self
            .agent
            .as_ref()
            .map(|agent| agent.view(ip))
            .unwrap_or_default();
        format!("{}'s flows to {ip} are not denied: {view}", service.name)
    }

    fn note_aims(&mut self) {
        for service in self.world.services {
            let own = self.world.objects.slices_of(&service);
            for endpoint in own.flat_map(|(_, slice)| &slice.endpoints) {
                let uid = endpoint
                    .target
                    .as_ref()
                    .map(|target| target.uid.clone())
                    .unwrap_or_default();
                let aim = (service, endpoint.ip, uid);
                if !self.aimed.contains(&aim) {
                    self.aimed.push(aim);
                }
            }
        }
    }
}
