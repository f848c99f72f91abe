//! Whom the writers of a Service's slices mean: who may be reached through the Service.

use super::*;

impl Service {
    /// Whether a pod may lead.
    pub fn has_member(&self, namespace: &str, name: &str) -> bool {
        namespace == self.namespace && name.starts_with(self.name)
    }
}

impl World {
    /// Whether a call of the Service that ends at an IP, where this pod is, has reached a pod that
    /// is meant.
    pub fn means(&self, service: &Service, pod: &Pod, ip: Ip) -> bool {
        self.writer_means(service, pod, ip) || self.hand_means(service, pod, ip)
    }

    fn writer_means(&self, service: &Service, pod: &Pod, ip: Ip) -> bool {
        let Some((id, object)) = self.objects.pod_of(&pod.uid) else {
            return false;
        };
        if object.is_terminal() {
            return false;
        }
        // The controller lists a pod no sooner than it shows the IP: before that, nobody is sent to
        // it.
        let is_selected =
            service.selects == Some(object.app) && id.0 == service.namespace && object.shows(ip);
        // A leader knows its members by itself.
        let is_member = service.has_member(id.0, &id.1);
        match service.writer {
            Writer::Controller => is_selected,
            Writer::Leader => is_member,
            Writer::Both => is_selected || is_member,
            Writer::Copy(of) => self.writer_means(&self.services[of], pod, ip),
        }
    }

    /// The one who writes by hand means a pod, or an address, whoever is there.
    fn hand_means(&self, service: &Service, pod: &Pod, ip: Ip) -> bool {
        let slices = self
            .objects
            .slices_of(service)
            .filter(|(name, _)| name.contains("-custom"));
        let mut endpoints = slices.flat_map(|(_, slice)| &slice.endpoints);
        endpoints.any(|endpoint| {
            let target = endpoint.target.as_ref();
            endpoint.ip == ip
                && target.is_none_or(|target: &Target| {
                    target.uid == pod.uid || target.uid == OF_ANOTHER_CLUSTER
                })
        })
    }
}
