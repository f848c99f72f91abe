//! What kubelets, PodGC and people do to pods: on the node first, in the API later.

use super::*;

type Id = (&'static str, String);

impl World {
    /// The next thing that the kubelet of a pod does.
    pub fn step(&mut self, index: usize, pick: usize) {
        let pod = self.cluster.pods[index].clone();
        let cut = self.cluster.cut[pod.node];
        let shown = self.object(index);
        match (pod.sandbox, shown) {
            // The kubelet sees that it was force-deleted.
            (Some(_), None) if !cut => self.stop(index),
            (Some(_), Some((id, object))) if !cut => {
                if object.deleting || object.is_terminal() {
                    self.stop(index);
                } else if object.ip != pod.sandbox
                    || !matches!(object.container, Container::Running(_))
                {
                    self.publish(index, id, object);
                }
            }
            (None, Some((id, object))) if !cut => {
                if object.is_terminal() && object.deleting && is_proven_over(&object) {
                    self.drop_object(&id, &object);
                } else if pod.over {
                    self.publish_end(index, id, object);
                } else if object.deleting {
                    self.stop(index);
                } else if pod.wanted && !object.is_terminal() {
                    self.start(index, pick, id, object);
                }
            }
            _ => {}
        }
    }

    /// The containers end by themselves, and the sandbox goes.
    pub fn finish(&mut self, index: usize) {
        if self.cluster.pods[index].sandbox.is_some() {
            self.stop(index);
        }
    }

    pub fn delete(&mut self, index: usize) {
        let Some((id, mut object)) = self.object(index) else {
            return;
        };
        object.deleting = true;
        if object.is_terminal() && is_proven_over(&object) {
            self.drop_object(&id, &object);
        } else {
            self.show(id, object);
        }
    }

    /// Deletes the object by force; the containers keep running.
    pub fn force(&mut self, index: usize) {
        let Some((id, mut object)) = self.object(index) else {
            return;
        };
        object.deleting = true;
        self.show(id.clone(), object.clone());
        self.drop_object(&id, &object);
    }

    /// PodGC gives up a pod whose node is cut off.
    pub fn collect(&mut self, index: usize) {
        let cut = self.cluster.cut[self.cluster.pods[index].node];
        let Some((id, mut object)) = self
            .object(index)
            .filter(|(_, object): &(Id, PodObject)| cut && !object.is_terminal())
        else {
            return;
        };
        object.phase = "Failed";
        object.phase_by = if object.kubelet == "k3s" {
            "k3s"
        } else {
            "kube-controller-manager"
        };
        self.show(id, object);
    }

    pub fn fail_early(&mut self, index: usize) {
        let pod = &self.cluster.pods[index];
        let kubelet = self.cluster.kubelets[pod.node];
        let early =
            matches!(kubelet, Kubelet::Old | Kubelet::Virtual) && !self.cluster.cut[pod.node];
        if !early {
            return;
        }
        let Some((id, mut object)) = self.object(index) else {
            return;
        };
        if object.phase == "Running" {
            object.phase = "Failed";
            if let (Kubelet::Virtual, Container::Running(start)) = (kubelet, object.container) {
                object.sandbox = Some((false, self.clock(index)));
                object.container = Container::Ended(start, self.clock(index));
            }
            self.show(id, object);
        }
    }

    /// The kubelet goes over a pod whose image it cannot pull, and shows its sandbox's IPs.
    pub fn pull(&mut self, index: usize) {
        let pod = self.cluster.pods[index].clone();
        if pod.sandbox.is_none() || self.cluster.cut[pod.node] {
            return;
        }
        let Some((id, mut object)) = self.object(index) else {
            return;
        };
        let Container::Waiting(why) = object.container else {
            return;
        };
        let same =
            object.ip == pod.sandbox && object.sandbox.is_none_or(|(up, at)| up && at == pod.since);
        object.has_been_pulled = same;
        object.ip = pod.sandbox;
        object.sandbox = object.sandbox.map(|_| (true, pod.since));
        object.container = Container::Waiting(why % 2 + 1);
        self.show(id, object);
    }

    /// A kubelet that has restarted refuses a pod that has ended, and its status shows that alone
    /// (kubernetes#117955).
    pub fn rewrite(&mut self, index: usize) {
        let cut = self.cluster.cut[self.cluster.pods[index].node];
        let Some((id, mut object)) = self
            .object(index)
            .filter(|(_, object)| object.is_terminal() && !cut)
        else {
            return;
        };
        (object.phase, object.container) = ("Failed", Container::Waiting(0));
        self.show_phase(id, object);
    }

    /// The runtime lost the sandbox: its IP is free, and the kubelet says that there is none.
    pub fn lose_sandbox(&mut self, index: usize) {
        let pod = self.cluster.pods[index].clone();
        let now = self.clock(index);
        let Some((id, mut object)) = self.object(index) else {
            return;
        };
        let Container::Running(start) = object.container else {
            return;
        };
        // Both times are whole seconds: a sandbox that lives shorter looks as if it had never been
        // another one.
        let settled = start < now && object.sandbox.is_some() && !self.cluster.cut[pod.node];
        if pod.sandbox.is_none() || object.is_terminal() || object.deleting || !settled {
            return;
        }
        self.cluster.sandbox_down(index, now);
        object.sandbox = Some((false, now));
        object.container = Container::Ended(start, now);
        object.ready = false;
        self.show(id, object);
    }

    pub fn relabel(&mut self, index: usize, app: &'static str) {
        if let Some((id, object)) = self.object(index) {
            self.show(id, PodObject { app, ..object });
        }
    }

    fn start(&mut self, index: usize, pick: usize, id: Id, mut object: PodObject) {
        let now = self.clock(index);
        if !self.cluster.sandbox_up(index, pick, now) {
            return;
        }
        if let Some(sandbox) = &mut object.sandbox {
            *sandbox = (true, now);
            self.show(id, object);
        }
    }

    fn publish(&mut self, index: usize, id: Id, mut object: PodObject) {
        let now = self.clock(index);
        let pod = &self.cluster.pods[index];
        object.ip = pod.sandbox;
        object.attached = Vec::new();
        if let Some(ip) = pod.attached {
            if self.setup.networks > 2 {
                // More than an agent reads, and the last one is right.
                for last in 0..40 {
                    object.attached.push(Ip::four([10, 250, 1, last]));
                }
            }
            if self.setup.networks > 1 {
                object.attached.push(ip);
            }
        }
        object.phase = "Running";
        object.phase_by = object.kubelet;
        object.ready = true;
        object.sandbox = object.sandbox.map(|_| (true, pod.since));
        object.container = Container::Running(now);
        self.show(id, object);
    }

    /// Containers end, then the sandbox goes; nothing is shown yet.
    fn stop(&mut self, index: usize) {
        let now = self.clock(index);
        self.cluster.sandbox_down(index, now);
        let pod = &mut self.cluster.pods[index];
        (pod.wanted, pod.over) = (false, true);
    }

    fn publish_end(&mut self, index: usize, id: Id, mut object: PodObject) {
        let now = self.clock(index);
        let start = match object.container {
            Container::Running(start) | Container::Ended(start, _) => start,
            Container::Waiting(_) => now,
        };
        if is_proven_over(&object) && object.is_terminal() {
            return;
        }
        if object.ready {
            // The normal exit takes two patches.
            object.container = Container::Ended(start, now);
            object.ready = false;
            self.show(id.clone(), object.clone());
        }
        object.container = Container::Ended(start, now);
        if !object.is_terminal() {
            object.phase = "Succeeded";
            object.phase_by = object.kubelet;
        }
        object.sandbox = object.sandbox.map(|_| (false, now));
        self.show_phase(id, object);
    }

    fn drop_object(&mut self, id: &Id, object: &PodObject) {
        let json = object.json(id.0, &id.1);
        self.api.store().remove(PODS, &key(id.0, &id.1), json);
        self.objects.pods.remove(id);
        self.follow(id.0, object.app);
    }

    fn object(&self, index: usize) -> Option<(Id, PodObject)> {
        let (id, object) = self.objects.pod_of(&self.cluster.pods[index].uid)?;
        Some((id.clone(), object.clone()))
    }
}

/// The containers have ended, as the object says.
fn is_proven_over(object: &PodObject) -> bool {
    matches!(object.container, Container::Ended(..))
}
