//! The addresses of a pod's further networks, which `status.podIPs` does not show: as Multus writes
//! them, GKE and Kube-OVN.

use super::annotations::{brief, cut};
use super::json::{OrDefault, addr};
use super::meta::{Ignored, Meta};
use epguard_common::Addr;
use serde::Deserialize;

/// Networks that the pod has (Network Plumbing Working Group, de-facto standard 1.1, section
/// 4.1.2), and the annotation's name before 2021.
const STATUS: [&str; 2] = [
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.v1.cni.cncf.io/networks-status",
];
/// GKE's further networks, and the end of Kube-OVN's name for those of an attachment.
const GKE: &str = "networking.gke.io/pod-ips";
const KUBE_OVN: &str = ".kubernetes.io/ip_address";

/// More addresses than a pod has. Those beyond are not read: a client that may annotate a pod can
/// write 15,000 of them.
const MOST: usize = 32;

/// Networks that the pod requests: the further ones, and a default network of its own.
pub(super) const REQUEST: [&str; 2] = [
    "k8s.v1.cni.cncf.io/networks",
    "v1.multus-cni.io/default-network",
];

/// How much of a parser's message is shown: it repeats the value.
const MESSAGE: usize = 160;

impl Meta<'_> {
    /// Every address of every network of the pod, and whether there are more than [`MOST`]. Multus
    /// writes them while the sandbox is made, before the kubelet shows any podIP.
    pub(super) fn network_ips(&self, ignored: &mut Ignored) -> (Vec<Addr>, bool) {
        let mut ips = self.ips_in_words();
        for (key, text) in self.annotated(&STATUS) {
            let attachments: Vec<Attachment> = serde_json::from_str(text).unwrap_or_else(|error| {
                let error = error.to_string();
                ignored.push(format!(
                    "annotation {key} is not in Multus' format: {}",
                    cut(&error, MESSAGE)
                ));
                Vec::new()
            });
            let mut odd = Vec::new();
            for text in attachments.iter().flat_map(|attachment| &*attachment.ips) {
                // Some plugins write the length of the prefix, too.
                match addr(text.split('/').next().unwrap_or_default()) {
                    Some(ip) => ips.push(ip),
                    None => odd.push(text),
                }
            }
            if let Some(first) = odd.first() {
                ignored.push(format!(
                    "annotation {key}: {} of its addresses are not IPs of a host, such as {}",
                    odd.len(),
                    brief(first)
                ));
            }
        }
        ips.sort_unstable();
        ips.dedup();
        let is_partial = ips.len() > MOST;
        ips.truncate(MOST);
        (ips, is_partial)
    }

    /// The addresses among the words of the annotations of GKE and Kube-OVN.
    fn ips_in_words(&self) -> Vec<Addr> {
        let texts = self
            .annotations
            .iter()
            .filter(|(key, _)| &***key == GKE || key.ends_with(KUBE_OVN));
        let words = texts.flat_map(|(_, text)| text.split(is_in_no_address));
        words.filter_map(addr).take(MOST + 1).collect()
    }

    /// True if the pod requests certain addresses, or those of an `IPAMClaim`, which outlives the
    /// pod. The short form of the annotation (`ns/name@interface`) has no place for any.
    pub(super) fn asks_for_ips(&self) -> bool {
        self.annotated(&REQUEST)
            .filter_map(|(_, text)| serde_json::from_str::<Vec<Attachment>>(text).ok())
            .flatten()
            .any(|request| !request.ips.is_empty() || !request.claim.is_empty())
    }

    fn annotated<'a>(&'a self, keys: &'a [&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        keys.iter().filter_map(|key| {
            let text = self.annotations.get(*key)?;
            if text.is_empty() {
                return None;
            }
            Some((*key, &**text))
        })
    }
}

/// True for a letter that no address contains.
fn is_in_no_address(letter: char) -> bool {
    !letter.is_ascii_hexdigit() && !matches!(letter, '.' | ':')
}

/// An element of either annotation.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Attachment {
    ips: OrDefault<Vec<String>>,
    #[serde(rename = "ipam-claim-reference")]
    claim: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn annotated<'a>(key: &'a str, text: &'a str) -> Meta<'a> {
        Meta {
            annotations: OrDefault(BTreeMap::from([(key.into(), text.into())])),
            ..Meta::default()
        }
    }

    fn ips(key: &str, text: &str) -> (Vec<String>, Ignored) {
        let mut ignored = Ignored::new();
        let (ips, _) = annotated(key, text).network_ips(&mut ignored);
        (ips.iter().map(ToString::to_string).collect(), ignored)
    }

    /// As Multus 4 writes it, over several lines.
    const WRITTEN: &str = r#"[{
    "name": "kindnet", "interface": "eth0",
    "ips": [
        "10.244.1.9",
        "fd00:10:244:1::9"
    ],
    "mac": "8a:6d:5f:3e:9e:52", "default": true, "dns": {}, "gateway": ["10.244.1.1"]
},{
    "name": "storage/macvlan-a", "interface": "net1", "ips": ["192.168.7.20/24"], "mac": "c2:11:5a:41:9b:6e", "dns": {},
    "device-info": {"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:18:02.5"}}
},{
    "name": "storage/layer2", "interface": "net2", "mac": "c2:11:5a:41:9b:6f", "dns": {}
}]"#;

    #[test]
    fn the_addresses_of_every_network_are_read_and_no_others() {
        let gke =
            r#"[{"networkName":"blue","ip":"172.16.1.2"},{"networkName":"red","ip":"fd00::2"}]"#;
        let all = &["10.244.1.9", "192.168.7.20", "fd00:10:244:1::9"][..];
        for (key, text, expected) in [
            (STATUS[0], WRITTEN, all),
            ("k8s.v1.cni.cncf.io/networks-status", WRITTEN, all),
            // Multus clears them with the sandbox.
            (STATUS[0], "", &[]),
            (STATUS[0], "[]", &[]),
            (
                STATUS[0],
                r#"[{"name": "kindnet", "ips": null, "dns": {}}]"#,
                &[],
            ),
            (GKE, gke, &["172.16.1.2", "fd00::2"]),
            (
                "blue.default.ovn.kubernetes.io/ip_address",
                "172.17.0.9,fd00::9",
                &["172.17.0.9", "fd00::9"],
            ),
            (
                "blue.default.ovn.kubernetes.io/mac_address",
                "00:00:00:53:6B:B6",
                &[],
            ),
            (GKE, "0a:58:0a:f4:01:0a", &[]),
            ("example.com/gateway", "172.17.0.1", &[]),
        ] {
            let (ips, ignored) = ips(key, text);
            assert_eq!(ips, expected, "{key}: {text}");
            assert!(key == GKE || ignored.is_empty(), "{key}: {ignored:?}");
        }
    }

    #[test]
    fn malformed_json_is_ignored_and_reported_and_a_malformed_address_only_itself() {
        for malformed in [
            r#"[{"ips": ["10.1.1.1""#,
            r#"{"ips": []}"#,
            r#"[{"ips": "10.1.1.1"}]"#,
            "nonsense",
        ] {
            let (ips, ignored) = ips(STATUS[0], malformed);
            assert!(ips.is_empty(), "{malformed}");
            assert!(
                matches!(ignored.as_slice(), [what] if what.contains("k8s.v1.cni.cncf.io/network-status")),
                "{ignored:?}"
            );
        }
        let (ips, ignored) = ips(
            STATUS[0],
            r#"[{"ips": ["banana", "192.168.7.20", "0.0.0.0"]}]"#,
        );
        assert_eq!(ips, ["192.168.7.20"]);
        assert_eq!(
            ignored,
            [
                "annotation k8s.v1.cni.cncf.io/network-status: 2 of its addresses are not IPs of a host, such as \"banana\""
            ]
        );
    }

    #[test]
    fn a_large_unreadable_annotation_is_reported_in_one_short_line() {
        let many = format!(r#"[{{"ips": [{}""]}}]"#, r#""","#.repeat(80_000));
        let long = format!(r#"[{{"ips": ["{}"]}}]"#, "a".repeat(250_000));
        let no_list = format!(r#"[{{"ips": "{}"}}]"#, "a".repeat(250_000));
        for text in [many, long, no_list] {
            let (_, ignored) = ips(STATUS[0], &text);
            assert!(
                matches!(ignored.as_slice(), [line] if line.len() < 300),
                "{} lines",
                ignored.len()
            );
        }
    }

    #[test]
    fn more_addresses_than_a_pod_has_are_counted_as_unknown() {
        let list = |count: u8| {
            let ips: Vec<String> = (1..=count)
                .map(|last| format!(r#""10.0.0.{last}""#))
                .collect();
            format!(r#"[{{"ips": [{}]}}]"#, ips.join(","))
        };
        for (count, expected) in [(32, (32, false)), (33, (32, true))] {
            let (text, mut ignored) = (list(count), Ignored::new());
            let (ips, partial) = annotated(STATUS[0], &text).network_ips(&mut ignored);
            assert_eq!((ips.len(), partial), expected);
        }
    }

    #[test]
    fn a_request_for_fixed_addresses_differs_from_one_for_any_address() {
        let asks = |key, text| annotated(key, text).asks_for_ips();
        let networks = "k8s.v1.cni.cncf.io/networks";
        assert!(asks(
            networks,
            r#"[{"name": "m", "ips": ["192.0.2.205/24"], "mac": "CA:FE:C0:FF:EE:00"}]"#
        ));
        assert!(asks(
            networks,
            r#"[{"name": "m", "namespace": "ns1", "ipam-claim-reference": "vm1.m"}]"#
        ));
        assert!(asks(
            "v1.multus-cni.io/default-network",
            r#"[{"name": "d", "ips": ["10.1.0.5"]}]"#
        ));
        assert!(!asks(networks, r#"[{"name": "m", "interface": "net1"}]"#));
        assert!(!asks(networks, "ns1/macvlan-a@net1, macvlan-b"));
    }
}
