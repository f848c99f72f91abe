use super::super::ruleset::script;
use super::super::{Protocol, ProxyOptions};
use super::*;

fn service(frontend: Frontend, backends: &[&str]) -> ServiceRule {
    ServiceRule {
        name: "shop/a:http".to_owned(),
        protocol: Protocol::Tcp,
        frontends: vec![frontend],
        backends: backends.iter().map(|to| to.parse().unwrap()).collect(),
        ..ServiceRule::default()
    }
}

fn cluster_ip(text: &str) -> Frontend {
    Frontend::ClusterIp(text.parse().unwrap())
}

fn node_port() -> Frontend {
    Frontend::NodePort {
        family: "10.96.0.10".parse().unwrap(),
        port: 30080,
    }
}

/// The script, with the hashes left out.
fn written(service: &ServiceRule) -> String {
    let hash = chain_name(service).split('-').next().unwrap().to_owned();
    script(std::slice::from_ref(service), ProxyOptions::default()).replace(&hash, "H")
}

#[track_caller]
fn has(script: &str, lines: &[&str]) {
    for line in lines {
        assert!(script.contains(line), "{line}\n{script}");
    }
}

#[test]
fn a_cluster_ip_goes_to_the_backends_of_its_own_family() {
    let vip = cluster_ip("[fd00:10:96::a]:80");
    let script = written(&service(vip, &["10.244.1.2:8080", "[fd00::2]:8080"]));
    has(
        &script,
        &[
            "add element ip6 kube-proxy service-ips { fd00:10:96::a . tcp . 80 : goto service-H-shop/a/tcp/http }\n",
            "add rule ip6 kube-proxy service-H-shop/a/tcp/http meta l4proto tcp dnat ip6 addr . port to numgen inc mod 1 \
             map { 0 : fd00::2 . 8080 }\n",
        ],
    );
    assert!(!script.contains("10.244.1.2 . 8080"), "{script}");
}

#[test]
fn a_node_port_is_masqueraded_and_a_cluster_ip_is_not() {
    let script = written(&service(node_port(), &["10.244.1.2:8080"]));
    has(
        &script,
        &[
            "service-nodeports { tcp . 30080 : goto external-H-shop/a/tcp/http }\n",
            "external-H-shop/a/tcp/http meta mark set meta mark | 0x4000\n",
            "external-H-shop/a/tcp/http goto service-H-shop/a/tcp/http\n",
        ],
    );
    let script = written(&service(cluster_ip("10.96.0.10:80"), &["10.244.1.2:8080"]));
    assert!(!script.contains("external-H"), "{script}");
}

#[test]
fn session_affinity_has_a_chain_and_a_set_for_each_endpoint() {
    let sticky = ServiceRule {
        affinity: true,
        ..service(cluster_ip("10.96.0.10:80"), &["10.244.1.2:8080"])
    };
    let endpoint = "H-shop/a/tcp/http__10.244.1.2/8080";
    has(
        &written(&sticky),
        &[
            &format!(
                "service-H-shop/a/tcp/http ip saddr @affinity-{endpoint} goto endpoint-{endpoint}\n"
            ),
            &format!(
                "service-H-shop/a/tcp/http numgen inc mod 1 vmap {{ 0 : goto endpoint-{endpoint} }}\n"
            ),
            &format!("endpoint-{endpoint} update @affinity-{endpoint} {{ ip saddr }}\n"),
            &format!("endpoint-{endpoint} meta l4proto tcp dnat to 10.244.1.2:8080\n"),
        ],
    );
}

#[test]
fn a_local_policy_drops_packets_without_a_local_endpoint_and_masquerades_only_the_node() {
    let mut local = ServiceRule {
        local: Some(vec![]),
        ..service(node_port(), &["10.244.1.2:8080"])
    };
    has(
        &written(&local),
        &["no-endpoint-nodeports { tcp . 30080 comment \"shop/a:http\" : drop }\n"],
    );
    local.local = Some(local.backends.clone());
    has(
        &written(&local),
        &[
            "external-H-shop/a/tcp/http fib saddr type local goto service-H-shop/a/tcp/http",
            "external-H-shop/a/tcp/http goto local-H-shop/a/tcp/http\n",
        ],
    );
}
