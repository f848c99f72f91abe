//! Ways by which this node forwards packets without conntrack.

use super::netlink::netfilter::{Message, dump, string};
use std::fs;
use std::io::{BufRead, BufReader};

/// `NFT_MSG_GETFLOWTABLE` of `NFNL_SUBSYS_NFTABLES` in `linux/netfilter/nf_tables.h`, and attributes of its answer.
const GET_FLOWTABLE: u16 = 0x0a17;
const TABLE: u16 = 1;
const NAME: u16 = 2;

/// Whether IPVS translates Services and makes no conntrack entries. kube-proxy sets `net.ipv4.vs.conntrack` to 1.
#[must_use]
pub fn ipvs_without_conntrack() -> bool {
    let setting = fs::read_to_string("/proc/sys/net/ipv4/vs/conntrack").unwrap_or_default();
    setting.trim() == "0"
        && fs::File::open("/proc/net/ip_vs").is_ok_and(|file| has_services(BufReader::new(file)))
}

/// Behind three lines of headings comes a Service, if there is one. The rest may be long, and is not read.
fn has_services(listed: impl BufRead) -> bool {
    listed.lines().take(4).count() == 4
}

/// The flowtables of nftables in this network namespace: packets of an established connection that they forward have no entry.
/// Empty where the kernel has none.
#[must_use]
pub fn flowtables() -> Vec<String> {
    let take = |names: &mut Vec<String>, Message { attributes, .. }: Message<'_>| {
        if let (Some(table), Some(name)) = (string(attributes, &[TABLE]), string(attributes, &[NAME])) {
            names.push(format!("{table}/{name}"));
        }
    };
    dump(GET_FLOWTABLE, take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipvs_is_in_use_where_it_has_a_service() {
        let headings = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
                        -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n";
        assert!(!has_services(headings.as_bytes()));
        assert!(has_services(format!("{headings}TCP  0A600001:0050 rr\n").as_bytes()));
    }
}
