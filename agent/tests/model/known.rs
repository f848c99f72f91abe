//! Histories that ended in a wrong denial once, as the model made them small.

use super::*;

const SETUP: Setup = Setup {
    ipam: Ipam::Node,
    kubelets: [Kubelet::Current; 3],
    families: [0; 3],
    networks: 0,
    follow: true,
    owner: 0,
    host_port: None,
    front: 0,
    pg: 0,
    lapses: false,
    convicted: None,
    crowd: 0,
    costs: Costs::NONE,
    linger: 0,
    patient: true,
    converge: true,
};
const PODS: usize = 0;
const WEB: usize = 0;
const API: usize = 1;
const PG: usize = 2;

/// A history that ended in a wrong denial once.
pub struct KnownHistory {
    pub what_happens: &'static str,
    pub history: History,
    /// Reasons of the right denials that the history has on its way.
    pub denials: &'static [&'static str],
}

pub fn histories() -> Vec<KnownHistory> {
    let mut all = of_successors();
    all.push(of_a_forgotten_writer());
    all.push(of_a_lagging_stream());
    all.extend(of_restores());
    all.push(of_a_conviction());
    all.extend(of_host_ports());
    all.push(of_a_share());
    all.push(of_a_namespaces_bound());
    all
}

/// A new pod gets the IP of a dead one, and the writer of the slice means the new pod.
fn of_successors() -> Vec<KnownHistory> {
    use Op::{Bring, Delete, End, Restart, Run, Step};
    let next_leader = [
        (0, Run(PG, 0, 0, 0)),
        (0, Delete(0)),
        (0, End(0)),
        (0, Step(0, 0)),
        (3_000, Restart(500)),
        (5_000, Bring(PG, 0, 1, 0)),
    ];
    let leader_setup = Setup {
        pg: 1,
        lapses: true,
        converge: false,
        ..SETUP
    };
    vec![
        KnownHistory {
            what_happens: "a successor with the name and IP, without a selector",
            history: with_kept_target(SETUP, 0),
            denials: &["dead-backend"],
        },
        KnownHistory {
            what_happens: "a successor, with a selector that only its controller knows",
            history: with_kept_target(Setup { pg: 1, ..SETUP }, 0),
            denials: &["dead-backend"],
        },
        KnownHistory {
            what_happens: "the next replica has another name",
            history: with_kept_target(Setup { owner: 4, ..SETUP }, 1),
            denials: &["dead-backend"],
        },
        KnownHistory {
            what_happens: "the next leader gets the IP after the last one's slice was deleted, \
                           and after a restart of the agent",
            history: history(leader_setup, &next_leader),
            denials: &["dead-backend"],
        },
    ]
}

/// A writer of slices keeps the targetRef of a pod while its IP is the same; the next pod's name
/// ends in `number`.
fn with_kept_target(setup: Setup, number: usize) -> History {
    use Op::{Bring, Delete, End, Run, Step};
    let ops = [
        (0, Run(PG, 0, 0, 0)),
        (0, Delete(0)),
        (0, End(0)),
        (0, Step(0, 0)),
        (1_000, Bring(PG, 0, number, 0)),
        (1_000, Step(0, 0)),
    ];
    history(setup, &ops)
}

fn of_a_forgotten_writer() -> KnownHistory {
    use Op::{Bring, Create, End, Finish, Force, PodGc, Pull, Restart, RollOut, Run, Step};
    KnownHistory {
        what_happens: "nothing happens until the last endpoint that another writer listed is \
                       forgotten",
        history: history(
            Setup {
                ipam: Ipam::Cluster,
                patient: false,
                ..SETUP
            },
            &[
                (0, RollOut(PG, 0, 2_361)),
                (63, RollOut(WEB, 0, 494)),
                (2_923, Restart(1_523)),
                (2_504, Finish(0)),
                (8_676, Run(PG, 0, 0, 0)),
                (0, Finish(1)),
                (11_805, Bring(API, 0, 0, 0)),
                (0, PodGc(0)),
                (0, Pull(0)),
                (0, Create(API, 0, 0)),
                (2_067, End(0)),
                (294, Force(3)),
                (0, End(3)),
                (0, End(2)),
                (0, Create(API, 0, 1)),
                (0, Step(3, 0)),
            ],
        ),
        denials: &["reused"],
    }
}

fn of_a_lagging_stream() -> KnownHistory {
    use Op::{Bring, End, Run, Stall};
    KnownHistory {
        what_happens: "the stream of pods lags while a pod of the Service gets the IP of a dead \
                       one, as freshness checks show",
        history: history(
            Setup {
                linger: 25,
                ..SETUP
            },
            &[
                (0, Run(WEB, 0, 0, 0)),
                (1_000, End(0)),
                (3_000, Stall(PODS)),
                (0, Bring(WEB, 0, 1, 0)),
            ],
        ),
        denials: &["dead-backend"],
    }
}

/// In which the API server goes back in time.
fn of_restores() -> Vec<KnownHistory> {
    use Op::{Backup, Bring, Create, Delete, End, Force, Restart, Restore, Run, Stall, Step, Sync};
    vec![
        KnownHistory {
            what_happens: "etcd is restored with a higher revision, and a pod that was dead runs \
                           again under its UID",
            history: history(
                Setup {
                    follow: false,
                    ..SETUP
                },
                &[
                    (0, Run(API, 0, 0, 0)),
                    (0, Backup),
                    (1_000, End(0)),
                    (1_000, Restore(false)),
                    (0, Step(0, 0)),
                    (1_000, Step(0, 0)),
                    (0, Sync(2)),
                ],
            ),
            denials: &["terminated"],
        },
        KnownHistory {
            what_happens: "the same, but it is force-deleted before the agent has listed anew: \
                           the API never showed that it runs",
            history: history(
                Setup {
                    converge: false,
                    ..SETUP
                },
                &[
                    (0, Run(WEB, 0, 0, 0)),
                    (0, Backup),
                    (1_000, End(0)),
                    (1_000, Restore(false)),
                    (0, Step(0, 0)),
                    (0, Force(0)),
                ],
            ),
            denials: &["dead-backend"],
        },
        KnownHistory {
            what_happens: "a restore of etcd makes all watches list anew, and a death is first \
                           seen then",
            history: history(
                SETUP,
                &[
                    (0, Run(PG, 0, 0, 0)),
                    (0, End(0)),
                    (0, Backup),
                    (2, Restart(0)),
                    (0, Delete(0)),
                    (0, Bring(PG, 0, 0, 0)),
                    (0, Restore(false)),
                ],
            ),
            denials: &["dead-backend"],
        },
        KnownHistory {
            what_happens: "the revision goes back between a list and the watch that begins there",
            history: history(
                Setup {
                    kubelets: [Kubelet::OneBinary, Kubelet::Current, Kubelet::Current],
                    patient: false,
                    converge: false,
                    ..SETUP
                },
                &[
                    (0, Create(API, 1, 0)),
                    (0, Bring(WEB, 0, 1, 0)),
                    (0, End(0)),
                    (0, Stall(PODS)),
                    (0, Backup),
                    (0, Run(WEB, 0, 0, 0)),
                    (0, Restore(true)),
                    (0, Delete(0)),
                    (0, End(0)),
                    (3_073, Step(0, 0)),
                    (196, End(2)),
                ],
            ),
            denials: &[],
        },
    ]
}

fn of_a_conviction() -> KnownHistory {
    use Op::{End, Finish, Restart, Rewrite, Run};
    KnownHistory {
        what_happens: "one of two Services of a dead pod was convicted, and the agent starts anew",
        history: history(
            Setup {
                ipam: Ipam::Cluster,
                host_port: Some("web"),
                convicted: Some(0),
                crowd: 1,
                linger: 14,
                patient: false,
                converge: false,
                ..SETUP
            },
            &[
                (6_487, Finish(1)),
                (2_192, End(1)),
                (732, Run(WEB, 0, 0, 0)),
                (0, End(1)),
                (33, End(2)),
                (2_233, Restart(3_384)),
                (1_361, Rewrite(1)),
            ],
        ),
        denials: &["dead-backend"],
    }
}

fn of_host_ports() -> Vec<KnownHistory> {
    use Op::{Address, Backup, Create, End, Force, Restore, Run, Stall};
    vec![
        KnownHistory {
            what_happens: "a pod with a host port is force-deleted, and the Service that lists it \
                           has the node's address",
            history: history(
                Setup {
                    host_port: Some("web"),
                    ..SETUP
                },
                &[
                    (0, Run(WEB, 0, 0, 0)),
                    (0, Address(WEB, OWN_ADDRESS)),
                    (1_000, Force(0)),
                ],
            ),
            denials: &[],
        },
        KnownHistory {
            what_happens: "a pod with a host port is force-deleted before the stream, which \
                           stalls, has told of it",
            history: history(
                Setup {
                    host_port: Some("api"),
                    patient: false,
                    converge: false,
                    ..SETUP
                },
                &[
                    (0, Run(PG, 0, 0, 1)),
                    (0, Force(0)),
                    (0, End(0)),
                    (0, Backup),
                    (0, Create(PG, 0, 0)),
                    (0, Stall(0)),
                    (0, Restore(false)),
                    (0, Address(3, Ip::four([192, 168, 250, 11]))),
                    (0, Run(API, 0, 0, 1)),
                    (0, Force(0)),
                    (8_900, Create(WEB, 0, 0)),
                ],
            ),
            denials: &["retired-backend"],
        },
    ]
}

fn of_a_share() -> KnownHistory {
    use Op::{Create, End, Finish, PodGc, Restart, RollOut, Run, Sync};
    KnownHistory {
        what_happens: "the pods of a rollout come while each second list is awaited, until their \
                       namespace has used up its share of these",
        history: history(
            Setup {
                kubelets: [Kubelet::OneBinary, Kubelet::Current, Kubelet::Current],
                front: 1,
                linger: 16,
                patient: false,
                converge: false,
                ..SETUP
            },
            &[
                (0, Run(WEB, 1, 0, 0)),
                (0, Restart(102)),
                (0, End(0)),
                (0, Create(API, 0, 0)),
                (0, Finish(0)),
                (1_102, PodGc(0)),
                (0, Sync(1)),
                (3_000, RollOut(PG, 0, 1_060)),
            ],
        ),
        denials: &["dead-backend"],
    }
}

fn of_a_namespaces_bound() -> KnownHistory {
    use Op::{Create, End, Flood, Run, Step};
    KnownHistory {
        what_happens: "the Namespace of the pod that would be hit asks for no more than observe",
        history: history(
            Setup {
                crowd: 1,
                linger: 5,
                patient: false,
                converge: false,
                ..SETUP
            },
            &[
                (0, Create(WEB, 0, 0)),
                (0, End(0)),
                (0, Flood(3, 6, 20)),
                (0, Step(0, 0)),
                (0, End(0)),
                (0, Flood(4, 18, 20)),
                (0, Run(API, 0, 0, 0)),
                (0, Create(WEB, 0, 0)),
            ],
        ),
        denials: &[],
    }
}

fn history(setup: Setup, ops: &[(u16, Op)]) -> History {
    History {
        setup,
        ops: ops.to_vec(),
    }
}
