//! Writers of slices, and what a proxy may have read of them.

use super::*;

/// Whom a slice names that is written by hand.
#[derive(Clone, Copy)]
enum Named {
    None,
    Foreign,
    Own,
}

/// How an address is written by hand: of the second network, with leading zeros, for whom.
const HAND: [(bool, bool, Named); 6] = [
    (false, false, Named::None),
    (false, false, Named::Foreign),
    (false, true, Named::None),
    (true, false, Named::None),
    (true, false, Named::Own),
    (true, false, Named::Own),
];
/// The UID of a pod that only another cluster has.
pub const OF_ANOTHER_CLUSTER: &str = "uid-of-another-cluster";
/// How many ways there are.
pub const HANDS: usize = HAND.len();

impl World {
    /// The Service's writers bring its slices up to date.
    pub fn write_slice(&mut self, service: Service) {
        if let Some(app) = service.selects
            && service.writer != Writer::Leader
        {
            let endpoints = self.selected(&service, app);
            self.put_slice(&service, "auto", false, &endpoints);
        }
        match service.writer {
            Writer::Controller => {}
            Writer::Leader | Writer::Both
                if self.setup.lapses && self.leading(&service).is_none() =>
            {
                self.remove_slices(&service, "leader");
            }
            Writer::Leader | Writer::Both => {
                let endpoints = self.leader(&service);
                self.put_slice(&service, "leader", false, &endpoints);
            }
            Writer::Copy(of) => {
                let slices = self.objects.slices_of(&self.services[of]);
                let slices = slices.filter(|(name, _)| name.contains("-auto"));
                let endpoints: Vec<Endpoint> = slices
                    .flat_map(|(_, slice)| slice.endpoints.clone())
                    .collect();
                self.put_slice(&service, "auto", false, &endpoints);
            }
        }
    }

    /// As the EndpointSlice controller lists: every pod that has an IP and is not terminal.
    fn selected(&self, service: &Service, app: &str) -> Vec<Endpoint> {
        let pods = self.objects.pods.iter();
        let selected =
            pods.filter(|((namespace, _), pod)| *namespace == service.namespace && pod.app == app);
        let listed = selected
            .filter(|(_, pod)| !pod.is_terminal())
            .map(|(id, pod)| {
                let ready = (pod.ready && !pod.deleting) || service.publishes_unready;
                endpoints(id, pod, ready)
            });
        listed.flatten().collect()
    }

    /// As Patroni does: one running member leads, and the targetRef is kept while the IP is the
    /// same. No pod: no change.
    fn leader(&self, service: &Service) -> Vec<Endpoint> {
        let slices = self.objects.slices.iter();
        let own = slices.filter(|((namespace, name), _)| {
            *namespace == service.namespace && name.starts_with(&format!("{}-leader", service.name))
        });
        let before: Vec<Endpoint> = own.flat_map(|(_, slice)| slice.endpoints.clone()).collect();
        let Some((id, pod)) = self.leading(service) else {
            return before;
        };
        let mut now: Vec<Endpoint> = endpoints(id, pod, true).collect();
        for endpoint in &mut now {
            let same = before.iter().find(|kept| kept.ip == endpoint.ip);
            endpoint.terminating = false;
            endpoint.target = same.map_or(endpoint.target.take(), |kept| kept.target.clone());
        }
        now
    }

    /// The first member that runs.
    fn leading(&self, service: &Service) -> Option<(&(&'static str, String), &PodObject)> {
        self.objects.pods.iter().find(|((namespace, name), pod)| {
            service.has_member(namespace, name) && pod.phase == "Running" && pod.ip.is_some()
        })
    }

    /// A writer adds an address by hand.
    pub fn list_by_hand(&mut self, service: Service, index: usize, how: usize) {
        let (attached, zeros, named) = HAND[how];
        let pod = &self.cluster.pods[index];
        let own = pod.sandbox.map(|ip| ip.of(pod.families[0]));
        let Some(ip) = own.and(if attached { pod.attached } else { own }) else {
            return;
        };
        let target = match named {
            Named::None => None,
            Named::Foreign => Some(Target {
                namespace: service.namespace,
                name: "elsewhere".into(),
                uid: OF_ANOTHER_CLUSTER.into(),
            }),
            Named::Own => Some(Target {
                namespace: pod.namespace,
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            }),
        };
        let endpoint = Endpoint {
            ip,
            target,
            ready: true,
            terminating: false,
        };
        self.put_slice(&service, "custom", zeros, &[endpoint]);
    }

    pub fn unlist_by_hand(&mut self, service: Service) {
        self.remove_slices(&service, "custom");
    }

    /// Removes a writer's slice of each family.
    fn remove_slices(&mut self, service: &Service, suffix: &str) {
        for name in ["", "6"].map(|family| format!("{}-{suffix}{family}", service.name)) {
            if let Some(slice) = self
                .objects
                .slices
                .remove(&(service.namespace, name.clone()))
            {
                let json = slice.json(service.namespace, &name);
                self.api
                    .store()
                    .remove(SLICES, &key(service.namespace, &name), json);
            }
        }
    }

    /// Writes a slice for each family.
    fn put_slice(&mut self, service: &Service, suffix: &str, zeros: bool, endpoints: &[Endpoint]) {
        for six in [false, true] {
            let of = endpoints.iter().filter(|endpoint| endpoint.ip.six == six);
            let slice = Slice {
                service: service.name,
                six,
                zeros,
                endpoints: of.cloned().collect(),
            };
            let name = format!("{}-{suffix}{}", service.name, if six { "6" } else { "" });
            let id = (service.namespace, name);
            let before = self.objects.slices.get(&id);
            if before == Some(&slice) || before.is_none() && slice.endpoints.is_empty() {
                continue;
            }
            let json = slice.json(id.0, &id.1);
            self.api.store().put(SLICES, &key(id.0, &id.1), json);
            self.objects.slices.insert(id, slice);
        }
    }
}

/// The endpoints of a pod, one for each of its families.
fn endpoints(
    (namespace, name): &(&'static str, String),
    pod: &PodObject,
    ready: bool,
) -> impl Iterator<Item = Endpoint> {
    let ips = pod
        .ip
        .into_iter()
        .flat_map(|ip| pod.families.iter().map(move |six| ip.of(*six)));
    ips.map(move |ip| Endpoint {
        ip,
        target: Some(Target {
            namespace,
            name: name.clone(),
            uid: pod.uid.clone(),
        }),
        ready,
        terminating: pod.deleting,
    })
}
