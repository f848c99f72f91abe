//! Histories that ended in a wrong denial once, as the model made them small.

use crate::cluster::{Ipam, Kubelet};
use crate::history::{History, Op, Setup};

const SETUP: Setup = Setup {
    ipam: Ipam::Node,
    kubelets: [Kubelet::Current; 3],
    families: [0; 3],
    networks: 0,
    follow: true,
    owner: 0,
    front: 0,
    pg: 0,
    linger: 0,
    patient: true,
    converge: true,
};
const PODS: usize = 0;
const WEB: usize = 0;
const API: usize = 1;
const PG: usize = 2;

/// A Service without a selector: the writer keeps the targetRef of a pod whose successor has its name and IP.
pub fn successor_under_a_kept_target() -> History {
    History {
        setup: SETUP,
        ops: vec![
            (0, Op::Run(PG, 0, 0, 0)),
            (0, Op::Delete(0)),
            (0, Op::End(0)),
            (0, Op::Step(0, 0)),
            (1_000, Op::Bring(PG, 0, 0, 0)),
            (1_000, Op::Step(0, 0)),
        ],
    }
}

/// The same Service with a Deployment's pods: its writer compares IPs, and the next replica has another name.
pub fn next_replica_under_a_kept_target() -> History {
    let mut history = successor_under_a_kept_target();
    history.setup.owner = 1;
    history.ops[4].1 = Op::Bring(PG, 0, 1, 0);
    history
}

/// etcd is restored with a higher revision, and a pod that was dead runs again under its UID.
pub fn dead_pod_that_runs_again() -> History {
    History {
        setup: Setup { follow: false, ..SETUP },
        ops: vec![
            (0, Op::Run(API, 0, 0, 0)),
            (0, Op::Backup),
            (1_000, Op::End(0)),
            (1_000, Op::Restore(false)),
            (0, Op::Step(0, 0)),
            (1_000, Op::Step(0, 0)),
            (0, Op::Sync(2)),
        ],
    }
}

/// The same, but it is force-deleted before the agent has listed anew, and runs on for a while.
pub fn runs_again_unseen() -> History {
    History {
        setup: Setup { converge: false, ..SETUP },
        ops: vec![
            (0, Op::Run(WEB, 0, 0, 0)),
            (0, Op::Backup),
            (1_000, Op::End(0)),
            (1_000, Op::Restore(false)),
            (0, Op::Step(0, 0)),
            (0, Op::Force(0)),
        ],
    }
}

/// The stream of pods is held back while a pod of the Service gets the IP of a dead one; confirmations show what it lacks.
pub fn stream_that_lags_behind_a_list() -> History {
    History {
        setup: Setup { linger: 25, ..SETUP },
        ops: vec![
            (0, Op::Run(WEB, 0, 0, 0)),
            (1_000, Op::End(0)),
            (3_000, Op::Stall(PODS)),
            (0, Op::Bring(WEB, 0, 1, 0)),
        ],
    }
}

/// The revision goes back between a list and the watch that begins there.
pub fn went_back_between_list_and_watch() -> History {
    History {
        setup: Setup {
            kubelets: [Kubelet::OneBinary, Kubelet::Current, Kubelet::Current],
            patient: false,
            converge: false,
            ..SETUP
        },
        ops: vec![
            (0, Op::Create(API, 1, 0)),
            (0, Op::Bring(WEB, 0, 1, 0)),
            (0, Op::End(0)),
            (0, Op::Stall(PODS)),
            (0, Op::Backup),
            (0, Op::Run(WEB, 0, 0, 0)),
            (0, Op::Restore(true)),
            (0, Op::Delete(0)),
            (0, Op::End(0)),
            (3_073, Op::Step(0, 0)),
            (196, Op::End(2)),
        ],
    }
}
