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

/// What happened, the history, and what has to be denied on the way.
pub type Known = (&'static str, History, &'static [&'static str]);

pub fn histories() -> Vec<Known> {
    let mut all = of_writers_and_nodes();
    all.extend(of_restores());
    all.extend([
        of_a_conviction(),
        of_a_host_port(),
        of_a_share(),
        of_a_bound(),
    ]);
    all
}

fn of_writers_and_nodes() -> Vec<Known> {
    use Op::{
        Address, Bring, Create, Delete, End, Finish, Force, PodGc, Pull, Restart, RollOut, Run,
        Stall, Step,
    };
    // A writer of slices keeps the targetRef of a pod while its IP is the same; `number` is the
    // next pod's.
    let kept_target = |setup, number| {
        let ends = [
            (0, Run(PG, 0, 0, 0)),
            (0, Delete(0)),
            (0, End(0)),
            (0, Step(0, 0)),
        ];
        let comes = [(1_000, Bring(PG, 0, number, 0)), (1_000, Step(0, 0))];
        history(setup, &[&ends[..], &comes].concat())
    };
    let dead_backend = &["dead-backend"];
    vec![
        (
            "a successor with the name and IP, without a selector",
            kept_target(SETUP, 0),
            dead_backend,
        ),
        (
            "a successor, with a selector that only its controller knows",
            kept_target(Setup { pg: 1, ..SETUP }, 0),
            dead_backend,
        ),
        (
            "the next replica has another name",
            kept_target(Setup { owner: 4, ..SETUP }, 1),
            dead_backend,
        ),
        (
            "the next leader gets the IP after the last one's slice was deleted, and after a restart of the agent",
            history(
                Setup {
                    pg: 1,
                    lapses: true,
                    converge: false,
                    ..SETUP
                },
                &[
                    (0, Run(PG, 0, 0, 0)),
                    (0, Delete(0)),
                    (0, End(0)),
                    (0, Step(0, 0)),
                    (3_000, Restart(500)),
                    (5_000, Bring(PG, 0, 1, 0)),
                ],
            ),
            dead_backend,
        ),
        (
            "nothing happens until the last endpoint that another writer listed is forgotten",
            history(
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
            &["reused"],
        ),
        (
            "the stream of pods lags while a pod of the Service gets the IP of a dead one, as freshness checks show",
            history(
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
            dead_backend,
        ),
        (
            "a pod with a host port is force-deleted, and the Service that lists it has the node's address",
            history(
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
            &[],
        ),
    ]
}

/// In which the API server goes back in time.
fn of_restores() -> Vec<Known> {
    use Op::{Backup, Bring, Create, Delete, End, Force, Restart, Restore, Run, Stall, Step, Sync};
    let dead_backend = &["dead-backend"];
    vec![
        (
            "etcd is restored with a higher revision, and a pod that was dead runs again under its UID",
            history(
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
            &["terminated"],
        ),
        (
            "the same, but it is force-deleted before the agent has listed anew: the API never showed that it runs",
            history(
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
            dead_backend,
        ),
        (
            "a restore of etcd makes all watches list anew, and a death is first seen then",
            history(
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
            dead_backend,
        ),
        (
            "the revision goes back between a list and the watch that begins there",
            history(
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
            &[],
        ),
    ]
}

fn of_a_conviction() -> Known {
    use Op::{End, Finish, Restart, Rewrite, Run};
    (
        "one of two Services of a dead pod was convicted, and the agent starts anew",
        history(
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
        &["dead-backend"],
    )
}

fn of_a_host_port() -> Known {
    use Op::{Address, Backup, Create, End, Force, Restore, Run, Stall};
    (
        "a pod with a host port is force-deleted before the stream, which stalls, has told of it",
        history(
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
        &["retired-backend"],
    )
}

fn of_a_share() -> Known {
    use Op::{Create, End, Finish, PodGc, Restart, RollOut, Run, Sync};
    (
        "the pods of a rollout come while each second list is awaited, until their namespace has used up its share of these",
        history(
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
        &["dead-backend"],
    )
}

fn of_a_bound() -> Known {
    use Op::{Create, End, Flood, Run, Step};
    (
        "the Namespace of the pod that would be hit asks for no more than observe",
        history(
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
        &[],
    )
}

fn history(setup: Setup, ops: &[(u16, Op)]) -> History {
    History {
        setup,
        ops: ops.to_vec(),
    }
}
