//! `epguard audit` on a node whose rules and flows are behind the API.

mod ipvs;
mod rig;

use epguard_lab::scenario::stage::Stage;
use rig::{SERVICES, audit, command, connect, endpoint, fall_behind, node, stage, v4, v6, vip};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn audit_finds_nothing_on_a_clean_node_and_then_names_all_stale_state() {
    for (variant, family) in [(v4(), "ip"), (v6(), "ip6")] {
        let mut stage = stage(variant);
        let set =
            |name: &str, value| std::fs::write(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"), value);
        // Flows to a removed server stay for the whole test.
        for (name, value) in [
            ("acct", "1"),
            ("tcp_timeout_close_wait", "600"),
            ("tcp_timeout_fin_wait", "600"),
        ] {
            node(&stage).run(|| set(name, value)).unwrap().unwrap();
        }
        let to = SERVICES.map(|(service, _)| vip(&stage, service));
        let _flows = to.map(|vip| connect(&stage, vip));
        let _cached = connect(&stage, endpoint(&stage, "gone"));
        assert_eq!(audit(&stage), (0, CLEAN.to_owned()));

        fall_behind(&mut stage);
        let mut expected = FALLEN_BEHIND.replace("FAMILY", family);
        for pod in ["web", "gone", "late"] {
            let names = [format!("{pod}:8080"), format!("VIP-OF-{pod}")];
            let addresses = [endpoint(&stage, pod), vip(&stage, &format!("old/{pod}"))];
            for (name, address) in names.iter().zip(addresses) {
                expected = expected.replace(name, &address.to_string());
            }
        }
        let (code, text) = audit(&stage);
        assert_eq!((code, text.as_str()), (1, expected.as_str()), "{text}");
    }
}

const CLEAN: &str =
    "node-a: nothing is stale; compared N flows and 4 rules with 0 endpoints whose pods have ended";

const FALLEN_BEHIND: &str = "\
node-a: stale: 3 flows and 2 rules, 2 allowed to end; compared N flows and 4 rules with 4 endpoints whose pods have ended

STATE KIND FLOWS SERVICE ENDPOINT MEANT HIT REASON SINCE PACKETS WHERE
stale conntrack TCPSTATE 1 - gone:8080 TCP old/gone-1 nobody terminated TIME COUNT CLIENT -> gone:8080
stale conntrack TCPSTATE 1 old/gone:80 gone:8080 TCP old/gone-1 nobody dead-backend TIME COUNT CLIENT -> VIP-OF-gone
stale conntrack TCPSTATE 1 old/web:80 web:8080 TCP old/web-1 new/shop-1 reused TIME COUNT CLIENT -> VIP-OF-web
stale nftables rule - old/gone:tcp gone:8080 TCP old/gone-1 nobody dead-backend TIME not counted FAMILY kube-proxy \
service-HASH-old/gone/tcp/tcp
stale nftables rule - old/web:tcp web:8080 TCP old/web-1 new/shop-1 reused TIME not counted FAMILY kube-proxy \
service-HASH-old/web/tcp/tcp
allowed to end conntrack TCPSTATE 1 old/late:80 late:8080 TCP old/late-1 nobody retired-backend TIME COUNT CLIENT -> \
VIP-OF-late
allowed to end nftables rule - old/late:tcp late:8080 TCP old/late-1 nobody retired-backend TIME not counted FAMILY \
kube-proxy service-HASH-old/late/tcp/tcp";

/// Rules as kube-proxy before 1.36 writes them in its nftables mode. The pod that has web's IP now may have a rule.
const KUBE_PROXY: &str = "
table ip real {
    map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
    set affinity-AAAAAAAA-old/web/tcp/http__WEB/8080 { type ipv4_addr; flags dynamic,timeout; timeout 10800s; }
    chain service-AAAAAAAA-old/web/tcp/http {
        ip saddr @affinity-AAAAAAAA-old/web/tcp/http__WEB/8080 goto endpoint-AAAAAAAA-old/web/tcp/http__WEB/8080
        numgen random mod 1 vmap { 0 : goto endpoint-AAAAAAAA-old/web/tcp/http__WEB/8080 }
    }
    chain external-AAAAAAAA-old/web/tcp/http { jump mark-for-masquerade; goto service-AAAAAAAA-old/web/tcp/http; }
    chain endpoint-AAAAAAAA-old/web/tcp/http__WEB/8080 {
        ip saddr WEB jump mark-for-masquerade
        update @affinity-AAAAAAAA-old/web/tcp/http__WEB/8080 { ip saddr }
        meta l4proto tcp counter packets 7 bytes 420 dnat to WEB:8080
    }
    chain endpoint-BBBBBBBB-new/shop/tcp/__WEB/8080 { meta l4proto tcp dnat to WEB:8080; }
    chain endpoint-CCCCCCCC-old/web/udp/__WEB/8080 { meta l4proto udp dnat to WEB:8080; }
    chain endpoint-DDDDDDDD-ok/api/tcp/__API/8080 { meta l4proto tcp dnat to API:8080; }
    chain local-EEEEEEEE-old/gone/tcp/http {
        meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { 0 : API . 8080 , 1 : GONE . 8080 }
    }
    chain host-port { tcp dport 8080 dnat to GONE:8080; tcp dport 8081 dnat to WEB:8080; }
    chain mark-for-masquerade { meta mark set mark or 0x4000; }
}
";

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn the_rules_of_every_mode_of_kube_proxy_are_read_with_service_and_port() {
    let mut stage = stage(v4());
    fall_behind(&mut stage);
    let ip = |pod: &str| stage.cluster.names.pod(pod).unwrap().ip.to_string();
    let [web, gone, api] = ["web", "gone", "api"].map(ip);
    let script = KUBE_PROXY
        .replace("WEB", &web)
        .replace("GONE", &gone)
        .replace("API", &api);
    let mut nft = node(&stage).command("nft");
    let mut nft = nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let written = nft.stdin.take().unwrap().write_all(script.as_bytes());
    written.unwrap();
    assert!(nft.wait().unwrap().success());
    let rule = format!(
        "-t nat -A KUBE-SEP-A -p tcp -m comment --comment old/web:http -m tcp -j DNAT --to-destination {web}:8080"
    );
    for program in ["iptables-nft", "iptables-legacy"] {
        for arguments in ["-t nat -N KUBE-SEP-A", &rule] {
            let mut iptables = node(&stage).command(program);
            let written = iptables.args(arguments.split(' ')).status();
            let written = written.unwrap_or_else(|_| panic!("{program}, which `cargo xtask setup` installs"));
            assert!(written.success(), "{program}");
        }
    }
    let endpoint = format!("ip real endpoint-AAAAAAAA-old/web/tcp/http__{web}/8080");
    let expected = vec![
        json!([null, null, "ip real host-port", null]),
        json!([
            "old/gone",
            "http",
            "ip real local-EEEEEEEE-old/gone/tcp/http",
            null
        ]),
        json!(["old/web", "http", "ip nat KUBE-SEP-A", 0]),
        json!(["old/web", "http", endpoint, 7]),
        json!(["old/web", "http", "legacy ip nat KUBE-SEP-A", 0]),
    ];
    assert_eq!(stale_rules_beside_the_labs(&stage), expected);
}

/// Service, port, place and packets of each.
fn stale_rules_beside_the_labs(stage: &Stage) -> Vec<Value> {
    let output = command(stage, &["-o", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["kind"] != "conntrack" && finding["state"] == "stale")
        .filter(|finding| !finding["at"].as_str().unwrap().starts_with("ip kube-proxy "))
        .map(|finding| {
            json!([
                finding["service"],
                finding["port"],
                finding["at"],
                finding["packets"]
            ])
        })
        .collect()
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn without_privileges_or_an_agent_audit_calls_nothing_clean_and_names_the_remedy() {
    let mut stage = stage(v4());
    let mut audit = command(&stage, &[]);
    // SAFETY: the closure only makes a system call, which changes this process's bounding set.
    unsafe {
        audit.pre_exec(|| {
            libc::prctl(libc::PR_CAPBSET_DROP, NET_ADMIN, 0, 0, 0);
            Ok(())
        });
    }
    let output = audit.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.as_str()), (Some(2), NOT_LOOKED));

    stage.agent.kill();
    let output = command(&stage, &[]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), error.lines().count()),
        (Some(2), 1),
        "{error}"
    );
    assert!(error.starts_with("epguard: no agent answers at "), "{error}");
}

/// linux/capability.h
const NET_ADMIN: libc::c_ulong = 12;

const NOT_LOOKED: &str = "\
node-a: nothing is stale; compared no flows and no rules with 0 endpoints whose pods have ended

not read: conntrack: the kernel does not list it: Operation not permitted (os error 1): run this as root, or with \
CAP_NET_ADMIN, in the node's own network namespace
not read: rules of nftables: the kernel does not list it: Operation not permitted (os error 1): run this as root, or \
with CAP_NET_ADMIN, in the node's own network namespace
";

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn many_flows_to_one_endpoint_are_one_line_with_their_number() {
    let mut stage = stage(v4());
    let to = vip(&stage, "old/web");
    let _flows: Vec<TcpStream> = (0..50).map(|_| connect(&stage, to)).collect();
    fall_behind(&mut stage);
    let output = command(&stage, &["-o", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let flows: Vec<&Value> = findings
        .filter(|finding| finding["kind"] == "conntrack")
        .collect();
    let count: u64 = flows
        .iter()
        .map(|finding| finding["count"].as_u64().unwrap())
        .sum();
    // Some may be closed by now.
    assert!((10..=50).contains(&count), "{flows:?}");
    let states: Vec<&Value> = flows.iter().map(|finding| &finding["connection"]).collect();
    assert!(
        states.len() <= 5 && states.windows(2).all(|pair| pair[0] != pair[1]),
        "{flows:?}"
    );
}
