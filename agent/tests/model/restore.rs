//! A restore of etcd: the API loses its later state, and kubelets and writers of slices start from
//! the restored one.

use super::*;

impl World {
    /// The API goes back to its backup. Pods that it does not know are stopped; kubelets write at
    /// once what runs.
    pub fn restore(&mut self, back: bool) {
        let Some(objects) = self.backup.clone() else {
            return;
        };
        if !self.api.store().restore(back) {
            return;
        }
        self.objects = objects;
        let now = self.second();
        (0..3).for_each(|number| self.write_node(number));
        for index in 0..self.cluster.pods.len() {
            let pod = self.cluster.pods[index].clone();
            let known = self
                .objects
                .pod_of(&pod.uid)
                .map(|(id, object)| (id.clone(), object.clone()));
            match known {
                None => {
                    self.cluster.sandbox_down(index, now);
                    self.cluster.pods[index].over = true;
                }
                Some((id, object)) if !object.is_terminal() && pod.namespace != "infra" => {
                    self.revive(index, id, object);
                }
                Some(_) => {}
            }
        }
        for (namespace, app) in APPS {
            self.follow(namespace, app);
        }
    }

    /// The kubelet starts a pod again that the restored API wants, or says that it has another
    /// sandbox than shown.
    fn revive(&mut self, index: usize, id: (&'static str, String), mut object: PodObject) {
        let now = self.clock(index);
        let pod = &mut self.cluster.pods[index];
        (pod.wanted, pod.over) = (!object.deleting, false);
        pod.revived = true;
        if pod.sandbox.is_some() && pod.sandbox == object.ip {
            return;
        }
        object.sandbox = object.sandbox.map(|_| (false, now));
        object.container = Container::Waiting(0);
        object.has_been_pulled = false;
        (object.ip, object.ready, object.phase) = (None, false, "Pending");
        self.show(id, object);
    }
}
