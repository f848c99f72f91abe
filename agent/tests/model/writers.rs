//! Writers of slices, and what a proxy may have read of them.

use crate::objects::{Endpoint, SLICES, Service, Slice};
use crate::world::{World, key};

impl World {
    /// The Service's writer brings its slice up to date.
    pub fn write_slice(&mut self, service: &Service) {
        let endpoints = match service.selects {
            Some(app) => self.selected(service, app),
            None => self.leader(service),
        };
        self.put_slice(service, format!("{}-auto", service.name), endpoints);
    }

    /// As the EndpointSlice controller lists: every pod that has an IP and is not terminal.
    fn selected(&self, service: &Service, app: &str) -> Vec<Endpoint> {
        let pods = self.objects.pods.iter();
        let selected = pods.filter(|((namespace, _), pod)| *namespace == service.namespace && pod.app == app);
        selected
            .filter(|(_, pod)| !pod.is_terminal())
            .filter_map(|((_, name), pod)| {
                Some(Endpoint {
                    ip: pod.ip?,
                    target: Some((name.clone(), pod.uid.clone())),
                    ready: (pod.ready && !pod.deleting) || service.publishes_unready,
                    terminating: pod.deleting,
                })
            })
            .collect()
    }

    /// As Patroni does: one running pod leads, and its targetRef is kept while name and IP are the same (of a Deployment's pods, the
    /// IP). No pod: no change.
    fn leader(&self, service: &Service) -> Vec<Endpoint> {
        let id = (service.namespace, format!("{}-auto", service.name));
        let before = self
            .objects
            .slices
            .get(&id)
            .map(|slice| slice.endpoints.clone())
            .unwrap_or_default();
        let mut pods = self.objects.pods.iter();
        let running = pods.find_map(|((namespace, name), pod)| {
            let leads =
                *namespace == service.namespace && name.starts_with(service.name) && pod.phase == "Running";
            Some((name, pod, pod.ip?)).filter(|_| leads)
        });
        let Some((name, pod, ip)) = running else {
            return before;
        };
        let same = |endpoint: &&Endpoint| {
            let is_known = |(known, _): &(String, String)| known == name || self.setup.replicas;
            endpoint.ip == ip && endpoint.target.as_ref().is_some_and(is_known)
        };
        let kept = before
            .iter()
            .find(same)
            .and_then(|endpoint| endpoint.target.clone());
        vec![Endpoint {
            ip,
            target: kept.or_else(|| Some((name.clone(), pod.uid.clone()))),
            ready: true,
            terminating: false,
        }]
    }

    /// A writer adds an address by hand: without a targetRef, or with the UID of a pod of another cluster.
    pub fn list_by_hand(&mut self, service: &Service, index: usize, foreign: bool) {
        let Some(ip) = self.cluster.pods[index].sandbox else {
            return;
        };
        let target = foreign.then(|| ("elsewhere".to_owned(), "uid-of-another-cluster".to_owned()));
        let endpoint = Endpoint {
            ip,
            target,
            ready: true,
            terminating: false,
        };
        self.put_slice(service, format!("{}-custom", service.name), vec![endpoint]);
    }

    pub fn unlist_by_hand(&mut self, service: &Service) {
        let name = format!("{}-custom", service.name);
        if let Some(slice) = self.objects.slices.remove(&(service.namespace, name.clone())) {
            let json = slice.json((service.namespace, &name));
            self.api
                .store()
                .remove(SLICES, &key(service.namespace, &name), json);
        }
    }

    fn put_slice(&mut self, service: &Service, name: String, endpoints: Vec<Endpoint>) {
        let slice = Slice {
            service: service.name,
            endpoints,
        };
        let id = (service.namespace, name);
        if self.objects.slices.get(&id) == Some(&slice) {
            return;
        }
        self.story.slice(service, &slice);
        let json = slice.json((id.0, &id.1));
        self.api.store().put(SLICES, &key(id.0, &id.1), json);
        self.objects.slices.insert(id, slice);
    }
}
