//! The target `DNAT` of iptables (`linux/netfilter/nf_nat.h`), which iptables-nft hands to nftables as it is.

use super::netfilter::address;
use std::net::SocketAddr;

/// The address that the target sends packets to. Revision 0 is a `struct nf_nat_ipv4_multi_range_compat`, the others
/// are a `struct nf_nat_range` or its longer successor, whose addresses have room for IPv6. Flags come first, each
/// lowest value before the highest.
pub fn dnat(v6: bool, revision: u64, info: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = match (revision, v6) {
        (0, _) => (8..12, 16..18),
        (_, false) => (4..8, 36..38),
        (_, true) => (4..20, 36..38),
    };
    let port = info.get(port)?.try_into().ok()?;
    Some(SocketAddr::new(address(info.get(ip)?)?, u16::from_be_bytes(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_a_malformed_one_gives_none() {
        let old = [
            &[1, 0, 0, 0, 3, 0, 0, 0][..],
            &[1, 2, 3, 4, 1, 2, 3, 4, 0, 80, 0, 80],
        ]
        .concat();
        let v4 = [
            &[3, 0, 0, 0, 1, 2, 3, 4][..],
            &[0; 28],
            &[0, 80, 0, 80, 0, 0, 0, 0],
        ]
        .concat();
        let mut v6 = v4.clone();
        v6[19] = 9;
        for (is_v6, revision, info, expected) in [
            (false, 0, old, "1.2.3.4:80"),
            (false, 1, v4[..40].to_vec(), "1.2.3.4:80"),
            (false, 2, v4, "1.2.3.4:80"),
            (true, 2, v6, "[102:304::9]:80"),
        ] {
            let expected: SocketAddr = expected.parse().unwrap();
            assert_eq!(dnat(is_v6, revision, &info), Some(expected));
            let whole = if revision == 0 { 18 } else { 38 };
            assert!((0..whole).all(|cut| dnat(is_v6, revision, &info[..cut]).is_none()));
        }
    }
}
