//! `cargo xtask bench tenants`: what the worst objects of one tenant cost every agent: memory, the
//! longest time in which nothing else can be done, how long facts about other namespaces wait, and
//! how long the end of another's denial does. A program of its own, since its allocator counts.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod acts;
mod cluster;
mod lifts;
#[allow(dead_code, reason = "the benchmark `scale` uses the rest")]
#[path = "../scale/objects.rs"]
mod objects;
mod other;
#[allow(dead_code, reason = "the benchmark `scale` uses the rest")]
#[path = "../scale/size.rs"]
mod size;
mod tenant;

use cluster::Cluster;
use epguard_fuzz::memory;
use epguard_lab::figures::{self, Row, Table};
use serde_json::json;
use std::process::ExitCode;
use tenant::{CHANGES, Tenant, ip};

/// The most that a tenant may cost: memory in MiB, times in ms.
const MEMORY: f64 = 16.0;
const LONGEST: f64 = 10.0;
const WAIT: f64 = 20.0;

type Act = fn(&mut Tenant);

/// What the tenant does, and its denials then.
const ROWS: &[(&str, usize, Act)] = &[
    ("one pod with 15,000 annotated IPs", 0, |tenant| {
        tenant.annotated_pods(1);
    }),
    ("1,000 such pods", 0, |tenant| tenant.annotated_pods(1_000)),
    (
        "32 annotated IPs, others 20 times a second for 10 minutes",
        0,
        Tenant::annotated_ips_that_change,
    ),
    (
        "one Service of 4,000 ports and 20,000 external IPs",
        0,
        |tenant| tenant.wide_services(1),
    ),
    ("1,000 such Services", 0, |tenant| {
        tenant.wide_services(1_000);
    }),
    (
        "256 external IPs, others 20 times a second for 10 minutes",
        0,
        Tenant::external_ips_that_change,
    ),
    ("240 Services with selectors of 1.3 MB", 0, |tenant| {
        tenant.huge_selectors(240);
    }),
    (
        "80 slices of 1,000 endpoints with 100 addresses",
        0,
        |tenant| tenant.huge_slices(80, Some("web")),
    ),
    ("40 such slices without a Service", 0, |tenant| {
        tenant.huge_slices(40, None);
    }),
    ("1,000 slices of 1,000 endpoints and 4 ports", 0, |tenant| {
        (0..1_000).for_each(|number| tenant.slice(number, "web", 0..1_000, 0..4, None));
    }),
    (
        "20 slices that list 1,000 pods at one address each time",
        0,
        |tenant| {
            (0..CHANGES)
                .for_each(|number| tenant.slice(number, "web", 0..1_000, 0..1, Some(&ip(60, 0))));
        },
    ),
    ("4 pods behind 20,000 ports, which die", 0, |tenant| {
        tenant.service(0, "web", json!({}));
        let ports = |number: usize| 2_000 * number..2_000 * (number + 1);
        (0..10).for_each(|number| tenant.slice(number, "web", 0..4, ports(number), None));
        (0..4).for_each(|number| tenant.dies(number));
    }),
    (
        "a deleted slice of 4,000 ports of a dead pod, which changes",
        0,
        |tenant| {
            tenant.deleted_ports(1, 4_000);
        },
    ),
    (
        "three deleted slices of 4,000 ports of such a pod",
        0,
        |tenant| tenant.deleted_ports(3, 4_000),
    ),
    (
        "two deleted slices of 1,024 ports of such a pod",
        2_048,
        |tenant| tenant.deleted_ports(2, 1_024),
    ),
    (
        "24 slices list a dead pod at 1,024 addresses each",
        0,
        |tenant| tenant.dead_at_many_ips(24, 24_576),
    ),
    (
        "24 slices list 384 dead pods at 64 addresses each",
        8_192,
        |tenant| tenant.dead_at_many_ips(24, 64),
    ),
    (
        "90 Services share 64 external IPs, one changes",
        90,
        Tenant::shared_external_ips,
    ),
    (
        "75 Services share 75 external IPs, one changes its port",
        75,
        |tenant| {
            tenant.services_at_each_address(75);
        },
    ),
    (
        "pods wait beside 1,000 Services of 250 labels",
        0,
        Tenant::waiting_pods,
    ),
    (
        "4,000 pods wait beside a Service with 128 dead ones, which changes",
        0,
        |tenant| {
            tenant.starting_pods(4_000, 128);
        },
    ),
    (
        "24,576 endpoints of deleted slices become old at once",
        0,
        |tenant| tenant.forgotten_endpoints(6),
    ),
    (
        "a left-out slice beside 39 of 4,000 endpoints changes",
        0,
        |tenant| tenant.left_out_slice(39),
    ),
    (
        "a left-out slice beside 6 of 4,000 endpoints changes",
        0,
        |tenant| tenant.left_out_slice(6),
    ),
    (
        "40 slices of 4,000 ports list a dead pod of this node, pods change",
        0,
        |tenant| {
            tenant.listed_orphan_ip(40, 4_000);
        },
    ),
    (
        "24 slices of 1,024 ports list such a pod",
        24_576,
        |tenant| tenant.listed_orphan_ip(24, 1_024),
    ),
    (
        "a pod of a Service with 39 slices of 4,000 endpoints changes",
        0,
        |tenant| tenant.listed_pod(39),
    ),
    (
        "a pod of a Service with 6 slices of 4,000 endpoints changes",
        0,
        |tenant| tenant.listed_pod(6),
    ),
    ("40 slices of 4,000 endpoints are deleted", 0, |tenant| {
        tenant.deleted_slices(40);
    }),
    ("6 slices of 4,000 endpoints are deleted", 0, |tenant| {
        tenant.deleted_slices(6);
    }),
    (
        "a left-out Service beside 1,500 stale ones changes",
        1_500,
        Tenant::left_out_service,
    ),
    (
        "1,500 Services over one pod that flips, and dies",
        1_500,
        Tenant::crowd,
    ),
    (
        "24,000 denials, another Service's selector changes",
        24_000,
        |tenant| {
            tenant.denials();
            tenant.patches("other");
        },
    ),
    (
        "24,000 denials, their Service's selector changes",
        24_000,
        |tenant| {
            tenant.denials();
            tenant.patches("web");
        },
    ),
];

/// What the tenant's objects cost in a cluster that is otherwise at rest: tables of memory, of
/// standstills, and of waits.
fn main() -> ExitCode {
    let titles = [
        "One tenant: memory",
        "One tenant: longest standstill",
        "One tenant: how long others wait, 99 %",
        "One tenant: denials that are missing, or not expected",
    ];
    let [mut memory, mut standstill, mut waits, mut wrong] = titles.map(Table::new);
    let synced = Cluster::synced();
    for (name, denials, act) in ROWS {
        let mut tenant = Tenant(synced.clone());
        let before = memory::held();
        act(&mut tenant);
        let cost = tenant.0.cost();
        let kibibytes = f64::from(i32::try_from((memory::held() - before) / 1_024).unwrap());
        let wait: Vec<f64> = figures::percentile(&cost.waits, 99).into_iter().collect();
        let found = tenant.0.denials();
        eprintln!(
            "{name}: {found} denials; {:.2} MiB; {:.2} ms; wait {:.2}",
            kibibytes / 1_024.0,
            cost.longest,
            wait.first().unwrap_or(&0.0)
        );
        memory
            .rows
            .push(Row::new(*name, "MiB", [kibibytes / 1_024.0]).at_most(MEMORY));
        standstill
            .rows
            .push(Row::new(*name, "ms", [cost.longest]).at_most(LONGEST));
        waits.rows.push(Row::new(*name, "ms", wait).at_most(WAIT));
        let difference = f64::from(u32::try_from(found.abs_diff(*denials)).unwrap());
        wrong
            .rows
            .push(Row::new(*name, "denials", [difference]).at_most(0.0));
    }
    figures::print(&[memory, standstill, waits, wrong, lifts::table()])
}
