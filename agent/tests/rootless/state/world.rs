//! A small world for tests of the state machine: one Service `shop/web` on 10.96.0.1:80 -> 8080,
//! two nodes.

use super::*;

/// A denial that the state has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundDenial {
    pub ip: Addr,
    pub reason: Reason,
    pub state: UidState,
    /// The pod that the Service meant.
    pub meant: Uid,
    /// Another pod that has the IP.
    pub owner: Option<Uid>,
}

pub struct World {
    pub state: State,
    pub now: Duration,
}

impl World {
    /// Synced, with the Service and both nodes, and no other object.
    pub fn cluster() -> Self {
        Self::with(settings())
    }

    pub fn with(settings: Settings) -> Self {
        let mut world = Self::blind(settings);
        world.tell(routes_to(&[]));
        world
    }

    /// The same before the node's routes and neighbours were listed.
    pub fn blind(settings: Settings) -> Self {
        let mut world = Self {
            state: State::new(settings),
            now: Duration::from_secs(1),
        };
        world.list_all_but_pods();
        world.tell(Fact::Pod(Change::Reset(vec![])));
        world
    }

    /// The Service, no endpoints, both nodes.
    pub fn list_all_but_pods(&mut self) {
        self.list_namespaces_and_nodes();
        self.tell(Fact::Service(Change::Reset(vec![web()])));
        self.tell(Fact::Slice(Change::Reset(vec![])));
    }

    pub fn list_namespaces_and_nodes(&mut self) {
        let namespaces = ["shop", "other"].map(|name| namespace(name, Mode::Enforce));
        let nodes = [("node-a", 1), ("node-b", 2)].map(|(name, number)| node(name, number));
        self.tell(Fact::Namespace(Change::Reset(namespaces.into())));
        self.tell(Fact::Node(Change::Reset(nodes.into())));
    }

    pub fn tell(&mut self, fact: Fact) -> &mut Self {
        self.now += Duration::from_millis(10);
        self.state.apply(self.now, fact);
        self
    }

    pub fn tell_all(&mut self, facts: Vec<Fact>) {
        for fact in facts {
            self.tell(fact);
        }
    }

    pub fn later(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self.state.tick(self.now);
        self
    }

    /// The API server shows the Nodes that are asked for, as they are known.
    pub fn answer(&mut self) -> &mut Self {
        while let Some((name, _)) = self.state.take_node_check(self.now) {
            let uid = self
                .state
                .cluster()
                .nodes
                .get(&name)
                .map(|node| node.uid)
                .unwrap_or_default();
            let at = self.now + Duration::from_millis(1);
            self.tell(Fact::NodeSeen(NodeSeen { name, uid, at }));
        }
        self
    }

    pub fn pod(&mut self, pod: &Pod) -> &mut Self {
        self.tell(shown(pod.clone()))
    }

    pub fn deleted(&mut self, pod: &Pod) -> &mut Self {
        self.tell(gone(pod))
    }

    pub fn slice(&mut self, endpoints: &[(Addr, Option<Uid>)]) -> &mut Self {
        self.tell(sliced(endpoints))
    }

    #[track_caller]
    pub fn denies(&mut self, reasons: &[Reason]) -> &mut Self {
        self.denies_as("", reasons)
    }

    /// The same, and says why they are as they are.
    #[track_caller]
    pub fn denies_as(&mut self, why: &str, reasons: &[Reason]) -> &mut Self {
        assert_eq!(self.reasons(), reasons, "{why}");
        self
    }

    /// Checks how many denials are carried out when enforcing, and how many are only reported.
    #[track_caller]
    pub fn denies_and_stops(&mut self, carried_out: usize, stopped: usize) -> &mut Self {
        assert_eq!(
            (self.carried_out().len(), self.stopped().len()),
            (carried_out, stopped)
        );
        self
    }

    /// A runs on X behind the Service.
    pub fn with_a(mut self) -> (Self, Pod) {
        let a = a();
        self.pod(&a);
        self.slice(&[(X, Some(a.uid))]);
        (self, a)
    }

    /// The same, and A is dead.
    pub fn where_a_died() -> (Self, Pod) {
        let (mut world, a) = Self::cluster().with_a();
        world.pod(&dead(&a));
        (world, a)
    }

    /// A pod of another namespace ran on X, which no slice lists, and is dead.
    pub fn with_an_orphan() -> (Self, Pod) {
        let mut world = Self::cluster();
        let a = pod("other", "a", "a", &[X]);
        world.pod(&a).pod(&dead(&a));
        assert!(world.is_orphan(X));
        (world, a)
    }

    /// All denials.
    pub fn denials(&self) -> Vec<FoundDenial> {
        let mut found = Vec::new();
        for (_, endpoint, denial) in self.state.denials() {
            found.push(FoundDenial {
                ip: endpoint.ip,
                reason: denial.reason,
                state: denial.uid_state,
                meant: denial.dead_uid,
                owner: Some(denial.owner_uid).filter(|uid| *uid != Uid::NONE),
            });
        }
        found
    }

    pub fn is_orphan(&self, ip: Addr) -> bool {
        self.state.tables().terminated.contains_key(&ip)
    }

    /// Endpoints whose packets are denied when enforcing.
    pub fn carried_out(&self) -> Vec<Addr> {
        self.denied_ips(false)
    }

    /// Endpoints whose packets are only reported.
    pub fn stopped(&self) -> Vec<Addr> {
        self.denied_ips(true)
    }

    fn denied_ips(&self, is_stopped: bool) -> Vec<Addr> {
        let denied = self.state.tables().denied.iter();
        denied
            .filter(|(_, denial)| (denial.stopped != 0) == is_stopped)
            .map(|(target, _)| target.addr)
            .collect()
    }

    pub fn list(&mut self, pods: &[Pod]) -> &mut Self {
        self.tell(list_of(pods))
    }

    pub fn list_slices(&mut self, endpoints: &[(Addr, Option<Uid>)]) -> &mut Self {
        self.tell(Fact::Slice(Change::Reset(vec![slice("web", endpoints)])))
    }

    /// `count` pods behind the Service, on as many IPs.
    pub fn with_backends(mut self, count: u8) -> (Self, Vec<Pod>) {
        let pods: Vec<Pod> = (0..count).map(backend).collect();
        for pod in &pods {
            self.pod(pod);
        }
        self.slice(&endpoints(&pods));
        (self, pods)
    }

    pub fn reasons(&self) -> Vec<Reason> {
        self.denials()
            .into_iter()
            .map(|denial| denial.reason)
            .collect()
    }

    /// Those of the denials whose Service has VIPs.
    pub fn in_force(&self) -> Vec<Reason> {
        let tables = self.state.tables();
        let denied = tables.denied.iter();
        let in_force = denied.filter(|(key, _)| {
            tables
                .services
                .values()
                .any(|number| *number == key.service)
        });
        in_force.map(|(_, denial)| denial.reason).collect()
    }
}

/// What leads to these reasons once A has run on X behind the Service: a sentence, and the facts.
#[track_caller]
pub fn judge<const N: usize>(before: &[Fact], rows: [(&str, Vec<Fact>); N], reasons: &[Reason]) {
    for (sentence, facts) in rows {
        let (mut world, _) = World::cluster().with_a();
        world.tell_all([before, &facts].concat());
        assert_eq!(world.reasons(), reasons, "{sentence}");
        assert_eq!(world.state.take_revived(), None, "{sentence}");
    }
}

/// Of an agent on node-a that watches all pods.
pub fn settings() -> Settings {
    Settings {
        node: "node-a".into(),
        ipam: Ipam::Auto,
        ranges: Ranges::default(),
    }
}
