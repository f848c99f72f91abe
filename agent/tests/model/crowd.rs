//! What goes on by itself for a while: a tenant that writes again and again, and rollouts.

use super::*;
use serde_json::json;
use std::collections::VecDeque;

/// The namespace that writes much.
pub const CROWD: &str = "crowd";
/// Its Services.
const SERVICES_OF_CROWD: [&str; 6] = [
    "crowd-0", "crowd-1", "crowd-2", "crowd-3", "crowd-4", "crowd-5",
];
/// So many ports and external IPs that there is no room for the VIPs.
const PORTS: u16 = 65;
const ADDRESSES: u8 = 64;
/// How many ways there are to write much.
pub const FLOODS: usize = 7;

/// What is to be done later, in order of time.
#[derive(Default)]
pub struct Agenda(VecDeque<(Instant, Chore)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chore {
    /// The crowd writes: in which way, and how often it has written.
    Flood(usize, usize),
    /// A rollout makes the next pod of an app, which gets its IP: app, node, number.
    Bring(usize, usize, usize),
    /// The newest pod of the app shows it.
    Show(usize),
    /// The oldest pod of the app ends, and shows it.
    End(usize),
    /// The objects of pods that have ended go.
    Delete(usize),
}

impl Agenda {
    /// When there is something to do.
    pub fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    /// Takes what is due.
    pub fn take(&mut self) -> Option<Chore> {
        self.next().filter(|at| *at <= Instant::now())?;
        self.0.pop_front().map(|(_, chore)| chore)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, at: Instant, chore: Chore) {
        let place = self.0.partition_point(|(other, _)| *other <= at);
        self.0.insert(place, (at, chore));
    }
}

impl World {
    /// The crowd has dead pods, which its Services list.
    pub fn add_crowd(&mut self) {
        if self.setup.crowd == 0 {
            return;
        }
        self.api
            .store()
            .put(NAMESPACES, CROWD, namespace(CROWD, None));
        for number in 0..4 {
            self.put_ended_pod(number, CROWD);
        }
        for number in 0..self.setup.crowd {
            self.put_service_of_crowd(number, 0, 1);
            self.put_slice_of_crowd(number, false, false);
        }
    }

    /// The crowd writes so many times, with a pause in between.
    pub fn flood(&mut self, how: usize, times: usize, every: Duration) {
        if self.setup.crowd > 0 {
            let now = Instant::now();
            for (time, at) in (0u32..).zip(0..times) {
                self.agenda.add(now + every * time, Chore::Flood(how, at));
            }
        }
    }

    /// The pods of an app are replaced one by one; the next one starts before the oldest ends.
    pub fn roll_out(&mut self, app: usize, node: usize, pace: Duration) {
        let now = Instant::now();
        for round in 0..4u32 {
            let chores = [
                Chore::Bring(app, node, 2 + round as usize),
                Chore::Show(app),
                Chore::End(app),
                Chore::Delete(app),
            ];
            for (step, chore) in (0u32..).zip(chores) {
                self.agenda.add(now + pace * (3 * round + step), chore);
            }
        }
    }

    pub fn carry_out(&mut self, chore: Chore) {
        match chore {
            Chore::Flood(how, time) => self.write_much(how, time),
            Chore::Bring(app, node, number) => self.take(&Op::Bring(app, node, number, number)),
            Chore::Show(app) => {
                if let Some(pod) = self.pods_of(app).pop() {
                    self.step(pod, 0);
                }
            }
            Chore::End(app) => {
                if let [oldest, _, ..] = self.pods_of(app)[..] {
                    self.finish(oldest);
                    self.step(oldest, 0);
                }
            }
            Chore::Delete(app) => {
                let ended = |pod: &Pod| pod.app == APPS[app].1 && pod.over && pod.sandbox.is_none();
                for index in (0..self.cluster.pods.len())
                    .filter(|index| ended(&self.cluster.pods[*index]))
                    .collect::<Vec<_>>()
                {
                    self.delete(index);
                }
            }
        }
    }

    /// The pods of an app that run, the oldest first.
    fn pods_of(&self, app: usize) -> Vec<usize> {
        let pods = self.cluster.pods.iter().enumerate();
        let running = pods.filter(|(_, pod)| pod.app == APPS[app].1 && pod.sandbox.is_some());
        running.map(|(index, _)| index).collect()
    }

    fn write_much(&mut self, how: usize, time: usize) {
        let service = time % self.setup.crowd;
        let is_odd = time / self.setup.crowd % 2 == 1;
        match how {
            0 => self.put_slice_of_crowd(service, is_odd, false),
            1 => self.put_service_of_crowd(service, u8::from(is_odd), 1),
            2 => self.put_service_of_crowd(0, ADDRESSES + u8::from(is_odd), PORTS),
            3 => {
                let mode = MODES[usize::from(time % 2 == 1)];
                self.crowd_is_bound |= mode.is_some();
                self.api
                    .store()
                    .put(NAMESPACES, CROWD, namespace(CROWD, mode));
            }
            4 => self.turn_pod_of_crowd(time),
            5 => self.put_ended_pod(time % 4, if time / 4 % 2 == 1 { "other" } else { CROWD }),
            _ => self.put_slice_of_crowd(service, is_odd, true),
        }
    }

    /// A pod of the crowd starts, shows its IP, ends or goes.
    fn turn_pod_of_crowd(&mut self, time: usize) {
        let app = APPS.len() - 1;
        match time % 4 {
            0 => self.take(&Op::Bring(app, time / 4 % 2, time / 4, time)),
            1 => self.carry_out(Chore::Show(app)),
            2 => {
                for pod in self.pods_of(app) {
                    self.finish(pod);
                    self.step(pod, 0);
                }
            }
            _ => self.carry_out(Chore::Delete(app)),
        }
    }

    fn put_ended_pod(&self, number: usize, app: &'static str) {
        let name = format!("ended-{number}");
        let ended = PodObject {
            uid: format!("uid-of-crowd-{number}"),
            app,
            node: 1,
            phase: "Succeeded",
            phase_by: "kubelet",
            kubelet: "kubelet",
            ip: Some(ended_ip(number)),
            ready: false,
            sandbox: Some((false, 2)),
            container: Container::Ended(1, 2),
            deleting: false,
            families: FAMILIES[0],
            attached: vec![],
            owner: None,
            host_port: false,
            has_been_pulled: false,
        };
        let object = ended.json(CROWD, &name);
        self.api.store().put(PODS, &key(CROWD, &name), object);
    }

    fn put_service_of_crowd(&self, number: usize, external: u8, ports: u16) {
        let name = SERVICES_OF_CROWD[number];
        let vip = Ip::four([10, 97, 0, u8::try_from(number).unwrap_or(0)]);
        let service = Service {
            namespace: CROWD,
            name,
            selects: (number.is_multiple_of(2)).then_some(CROWD),
            writer: Writer::Controller,
            vip,
            publishes_unready: false,
        };
        let external: Vec<Ip> = (0..external)
            .map(|last| Ip::four([10, 98, 0, last]))
            .collect();
        let mut object = service.json(&external);
        object["spec"]["ports"] = (80..80 + ports).map(|port: u16| json!({"name": format!("p{port}"), "port": port, "targetPort": PORT, "protocol": "TCP"})).collect();
        self.api.store().put(SERVICES, &key(CROWD, name), object);
    }

    /// A slice lists the dead pods, or copies what slices of `web` and `api` list.
    fn put_slice_of_crowd(&self, number: usize, ready: bool, copies: bool) {
        let ended = (0..4).map(|number| Endpoint {
            ip: ended_ip(number),
            target: Some(Target {
                namespace: CROWD,
                name: format!("ended-{number}"),
                uid: format!("uid-of-crowd-{number}"),
            }),
            ready,
            terminating: false,
        });
        let mut endpoints: Vec<Endpoint> = ended.collect();
        if copies {
            let others = [0, 2].map(|other| self.services[other]);
            let listed = others
                .iter()
                .flat_map(|other| self.objects.slices_of(other));
            let four = listed
                .flat_map(|(_, slice)| slice.endpoints.clone())
                .filter(|endpoint| !endpoint.ip.six);
            endpoints.extend(four);
        }
        let service = SERVICES_OF_CROWD[number];
        let slice = Slice {
            service,
            six: false,
            zeros: false,
            endpoints,
        };
        let name = format!("{service}-auto");
        self.api
            .store()
            .put(SLICES, &key(CROWD, &name), slice.json(CROWD, &name));
    }
}

/// In node-b's range, and handed out to no other pod.
fn ended_ip(number: usize) -> Ip {
    Ip::four([10, 244, 2, 100 + u8::try_from(number).unwrap_or(0)])
}
