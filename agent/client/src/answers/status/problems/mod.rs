//! The table of problems of an agent: condition, text and remedy. Pure.

use crate::shared::output::{count, first, in_words, seconds};
use crate::shared::status::{Cause, Gap, Partial, Status, UnprovenDeaths, Watch};
use epguard_common::Reason;
use epguard_core::facts::Watched;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A map that is fuller than this, in percent, is a problem before it is full.
const NEARLY_FULL: usize = 80;

/// How many objects or nodes a problem names.
const NAMED: usize = 3;

/// Something that keeps epguard from its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The problem, with the name of the thing and the cause.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl Problem {
    /// A problem and its remedy.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// All problems of an agent, the worst first.
pub fn problems(status: &Status) -> Vec<Problem> {
    let mut table = ProblemTable::default();
    for add_rows in [
        view_rows,
        hook_rows,
        denial_rows,
        object_rows,
        socket_lb_rows,
    ] {
        add_rows(status, &mut table);
    }
    table.0
}

/// The problems of its view, as [`problems`] lists them.
pub fn view_problems(status: &Status) -> Vec<Problem> {
    problems_by(view_rows, status)
}

/// The problems of its hooks, and of what they read.
pub fn hook_problems(status: &Status) -> Vec<Problem> {
    problems_by(hook_rows, status)
}

/// Its problems beside a socket load balancer.
pub fn socket_lb_problems(status: &Status) -> Vec<Problem> {
    problems_by(socket_lb_rows, status)
}

fn problems_by(add_rows: fn(&Status, &mut ProblemTable), status: &Status) -> Vec<Problem> {
    let mut table = ProblemTable::default();
    add_rows(status, &mut table);
    table.0
}

/// The problems so far.
#[derive(Default)]
struct ProblemTable(Vec<Problem>);

impl ProblemTable {
    /// A row of the table: what its condition found, nothing if it does not hold, and the remedy.
    fn row(&mut self, found: impl IntoIterator<Item = String>, remedy: &str) {
        self.0
            .extend(found.into_iter().map(|what| Problem::new(what, remedy)));
    }
}

const WATCH_REMEDY: &str = "without an answer: check that this node reaches the API server; refused: what its account may do \
     (kubectl auth can-i --list); stopped or silent: the API server's watch cache, or a proxy before it";

/// What keeps the view from being fresh.
fn view_rows(status: &Status, table: &mut ProblemTable) {
    let not_synced = "not every watch has shown a list yet, so there are no new denials";
    table.row(
        (!status.synced).then(|| not_synced.to_owned()),
        "wait; a watch that is down is a problem of its own, with the cause",
    );
    table.row(watches_down(status), WATCH_REMEDY);
    table.row(
        status.mode_policy.clone(),
        "check the keys of the ConfigMap, and that the agent may list and watch it (Role epguard); `epguard mode` changes a mode \
         that was set by hand",
    );
    let because = if let Some(age) = status.view_age_ms {
        format!("age of the view: {}", seconds(age))
    } else {
        let what = unproven_watches(status);
        format!(
            "not proven fresh: {}",
            what.as_deref().unwrap_or("the view")
        )
    };
    table.row(
        status.lease_has_ended().then(|| format!("the lease has ended ({because}), so denied packets pass")),
        "the agent renews it with a fresh view: see the watches' ages, and the log for `lease lost`",
    );
}

/// The watches that are down. If all are, one line has the cause of the first.
fn watches_down(status: &Status) -> Vec<String> {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for (name, watch) in &status.watches {
        if !watch.up {
            let cause = watch.error.as_deref();
            let cause = cause.unwrap_or("it has not connected yet");
            causes.push(cause);
            lines.push(format!("watch {name} is down: {cause}"));
        }
    }
    if causes.len() > 1 && causes.len() == status.watches.len() {
        return vec![format!("no watch is up: {}", causes[0])];
    }
    lines
}

/// Whether denials rest on the watch, and no freshness check has proven it since it stopped, or
/// since the start.
pub fn is_unproven(watched: Watched, watch: &Watch) -> bool {
    watched.bears_proofs() && watch.age_ms.is_none()
}

/// The problem of such watches; none if there is none. The status lists none for it while the lease
/// lasts: a moment after a restart each watch is so.
pub fn unproven_watch(status: &Status) -> Option<Problem> {
    let what = unproven_watches(status)?;
    let what = format!("{what}: not proven fresh since a stop, or since the agent's start");
    Some(Problem::new(what, WATCH_REMEDY))
}

/// Their names; none if there is none.
fn unproven_watches(status: &Status) -> Option<String> {
    let mut names = Vec::new();
    for (watched, watch) in &status.watches {
        if is_unproven(*watched, watch) {
            names.push(format!("watch {watched}"));
        }
    }
    if names.is_empty() {
        return None;
    }
    Some(in_words(&names))
}

/// Packets that reach no hook, or whose Service is not known.
fn hook_rows(status: &Status, table: &mut ProblemTable) {
    for at in &status.interfaces {
        let is_unhooked = !at.attached && !at.waiting;
        let why = at.error.as_deref().unwrap_or("not attached yet");
        table.row(
            is_unhooked.then(|| format!("{} ({}) has no hooks, so nothing is denied there: {why}", at.name, at.role)),
            "it is tried again every second; docs/troubleshooting.md, An interface has no hooks, says for each cause what to do",
        );
        table.row(
            at.ingress_error.as_ref().map(|why| format!("ingress hook of {} ({}): {why}", at.name, at.role)),
            "no flow is redirected anew, and packets of sockets behind a load balancer are not judged there; it is tried again every \
             second",
        );
        let before = if is_unhooked { None } else { at.before.first() };
        table.row(
            before.map(|first| format!("{first} runs before epguard on {}", at.name)),
            "packets that it accepts are not judged: start it before epguard, which then attaches first",
        );
    }
    table
        .0
        .extend(status.translators.gaps.iter().map(gap_problem));
}

/// The problem of packets that have no record for this cause.
pub fn gap_problem(Gap { cause, detail }: &Gap) -> Problem {
    let (what, remedy) = match cause {
        Cause::Kernel => (
            format!("packets that netfilter translates show no Service: {detail}"),
            "`terminated` and socket load balancers are judged all the same; see docs/limits.md",
        ),
        Cause::NotLoaded => (
            format!("no translator of Services was found: {detail}"),
            "kube-proxy loads it; epguard reads it within a second",
        ),
        Cause::Ipvs => (
            format!("what IPVS translates shows no Service: {detail}"),
            "sysctl -w net.ipv4.vs.conntrack=1, as kube-proxy sets it",
        ),
        Cause::Flowtable => (
            format!("packets that the flowtable {detail} of nftables forwards show no Service"),
            "established connections that it has taken over pass; the first packets of each are judged",
        ),
        Cause::Cilium => (detail.clone(), "what other translators record is judged"),
        Cause::Unreadable => (
            format!("{detail} to suspects passed, as their conntrack entries contradict them"),
            "another program changes addresses behind netfilter, or epguard reads this kernel wrongly: report it with \
             `epguard sysdump`",
        ),
    };
    Problem::new(what, remedy)
}

/// Denials that are missing, that wait, or that were wrong.
fn denial_rows(status: &Status, table: &mut ProblemTable) {
    let refused = count(status.refused, "denial");
    let by = largest(&status.refused_by_namespace);
    table.row(
        (status.refused > 0).then(|| format!("{refused} did not fit into a map, those packets pass{by}")),
        "a namespace may fill half of a map: see which map is full below; exclude ranges that need no protection \
         (--protect-cidr, --exclude-cidr)",
    );
    let maps = status.figures.maps.iter();
    let full = maps.filter(|(_, fill)| fill.entries * 100 > fill.capacity * NEARLY_FULL);
    table.row(
        full.map(|(name, fill)| {
            format!(
                "map {name} is nearly full: {} of {}",
                fill.entries, fill.capacity
            )
        }),
        "exclude ranges that need no protection (--protect-cidr, --exclude-cidr)",
    );
    let demoted = status.demoted.iter().map(|reason| {
        let count = status.wrong_denies.get(reason).copied().unwrap_or_default();
        format!("{reason} is only observed, because a denial was wrong ({count} since the start)")
    });
    table.row(
        demoted,
        "search the log for `wrong deny` and report it; `epguard mode --reason REASON enforce` ends this",
    );
    let services = &status.demoted_services;
    let named = first(services, NAMED, services.len());
    table.row(
        (!services.is_empty()).then(|| {
            format!("{} only observed, because a denial was wrong: {named}", count(services.len(), "Service"))
        }),
        "search the log for `wrong deny` and report it; `epguard breaker --release SERVICE` ends this",
    );
    let stopped = status.breaker.iter().map(|service| {
        format!(
            "{} of {} stopped by the breaker for {} ({}; {} ready recently)",
            count(service.stopped, "denial"),
            service.service,
            seconds(service.since_ms),
            service.why,
            count(service.ready_recently, "endpoint")
        )
    });
    table.row(
        stopped,
        "a second list decides within seconds; if none arrives, check the Service, then use `epguard breaker --release`",
    );
    let conflicts = status.conflicts.iter().map(|conflict| {
        let pods = conflict.pods.join(" and ");
        format!(
            "{} is claimed by live pods {pods}, so its traffic passes",
            conflict.ip
        )
    });
    table.row(
        conflicts,
        "one of them cannot be reached: check the CNI's IPAM on their nodes",
    );
}

/// Objects that leave Services without protection, or keep denials from being proven.
fn object_rows(status: &Status, table: &mut ProblemTable) {
    let skipped: u64 = status.watches.values().map(|watch| watch.skipped).sum();
    let ignored =
        || format!("{skipped} objects, or annotations of some, could not be read and are ignored");
    table.row(
        (skipped > 0).then(ignored),
        "the log names each (`skipped`)",
    );
    let left_out: usize = status.left_out.values().sum();
    let by = largest(&status.left_out);
    let too_large =
        "EndpointSlices or Services are too large for the index, so those Services have no denials";
    table.row(
        (left_out > 0).then(|| format!("{left_out} {too_large}{by}")),
        "the slices of a namespace may have 24,576 pairs of address and port, 2,048 of one Service at one IP, and 6,144 \
         of VIP and port, 4,096 of one Service, and a namespace 1,500 Services with endpoints: split them, or have their owner remove them",
    );
    let Partial {
        count: unread,
        first: named,
    } = &status.partial;
    let objects = count(*unread, "object");
    let named = first(named, named.len(), *unread);
    let partly =
        || format!("{objects} cannot be read in whole, so what they may concern passes: {named}");
    table.row(
        (*unread > 0).then(partly),
        "a pod's annotations may have 32 addresses; a Service 256 addresses, 1,024 ports and 256 labels (4 KiB) in its selector; an \
         EndpointSlice 1,024 addresses, 1,024 ports and 4,096 pairs of both, all slices of a namespace 24,576, and each address \
         must be an IP in its usual form: have their writers correct them",
    );
    let rivals: Vec<String> = status
        .rivals
        .iter()
        .map(|(service, rival)| format!("{rival} claims a VIP of {service}"))
        .collect();
    let shared = first(&rivals, NAMED, rivals.len());
    table.row(
        (!rivals.is_empty()).then(|| format!("packets to a VIP of two Services pass: {shared}")),
        "check the externalIPs and load-balancer IPs of both Services",
    );
    table.0.extend(status.unproven.iter().map(unproven_problem));
    let holders = status.possible_holders.iter().map(|holder| {
        let mut blocked = Vec::new();
        if holder.blocks_terminated {
            blocked.push(format!("{} on this node", Reason::Terminated));
        }
        for service in &holder.blocks_services {
            blocked.push(format!("{} of {service}", Reason::DeadBackend));
        }
        format!(
            "{} on {} may hold an IP that it has not shown for {}, so nothing is denied as {}",
            holder.pod,
            holder.node,
            seconds(holder.since_ms),
            blocked.join(", ")
        )
    });
    table.row(
        holders,
        "let its containers start (`kubectl describe pod` shows the cause), or delete it",
    );
}

/// Pods that finish, and that are not proven dead.
fn unproven_problem(deaths: &UnprovenDeaths) -> Problem {
    let only = format!(
        "only `{}` and `{}` are judged there",
        Reason::RetiredBackend,
        Reason::Reused
    );
    let pods = count(deaths.pods, "pod");
    let nodes = first(&deaths.nodes, NAMED, deaths.nodes.len());
    let finished = format!("{pods} finished on {nodes} and none is proven dead there");
    match &deaths.manager {
        Some(manager) => Problem::new(
            format!(
                "{finished}: the manager {manager} writes their phase, and is not known to be a kubelet"
            ),
            format!(
                "report the distribution with `kubectl get pod POD -o yaml --show-managed-fields`; until then {only}"
            ),
        ),
        None => Problem::new(
            format!("{finished}: their kubelet does not report PodReadyToStartContainers"),
            format!("kubelets report it from 1.29 on; until then {only}"),
        ),
    }
}

/// Calls and packets that cannot be judged beside a socket load balancer. A node without one has no
/// such problem.
fn socket_lb_rows(status: &Status, table: &mut ProblemTable) {
    let lb = &status.socket_lb;
    let Some(program) = lb.programs.first() else {
        return;
    };
    let which = if lb.in_force { "some calls" } else { "calls" };
    table.row(
        lb.problem.as_ref().map(|why| format!("{which} that {program} translates are not judged: {why}")),
        "a load balancer that attaches with links or BPF_F_ALLOW_MULTI runs beside others. Cilium up to 1.13 does not, and a \
         later one that took over from it only once the node has rebooted; list the programs: bpftool cgroup tree",
    );
    let is_eperm = lb.in_force && !lb.refuses;
    table.row(
        is_eperm.then(|| "refused calls fail with EPERM instead of ECONNREFUSED".to_owned()),
        "Linux 6.1 lets programs set the error",
    );
    let netkit = lb.netkit.first().map(|first| {
        let devices = count(lb.netkit.len(), "netkit device");
        format!("{devices}, such as {first}: their programs may redirect packets before epguard sees them")
    });
    table.row(
        netkit,
        "calls are judged when they connect, and `drop` refuses them; connections from before a denial go on. Cilium with \
         bpf.datapathMode=veth has no such devices",
    );
}

/// ` (namespace a: 3, b: 1)`: the namespaces with the most; empty if there are none.
fn largest(by_namespace: &BTreeMap<String, usize>) -> String {
    if by_namespace.is_empty() {
        return String::new();
    }
    let mut largest: Vec<(&String, &usize)> = by_namespace.iter().collect();
    largest.sort_by_key(|(_, number)| Reverse(**number));
    let named = largest
        .iter()
        .take(NAMED)
        .map(|(namespace, number)| format!("{namespace}: {number}"));
    format!(" (namespace {})", named.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
