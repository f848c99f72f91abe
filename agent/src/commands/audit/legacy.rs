//! Rules of legacy iptables, which the kernel keeps apart from nftables (`linux/netfilter_ipv4/ip_tables.h`,
//! `ip6_tables.h`).

use super::elsewhere;
use super::finding::Kind;
use super::netfilter::consistent;
use super::rules::{Rule, service};
use super::xt;
use epguard_core::facts::Protocol;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES`; those of IPv6 are the same.
const GET_INFO: libc::c_int = 64;
const GET_ENTRIES: libc::c_int = 65;
/// `struct ipt_getinfo`, and `struct ipt_get_entries` without the entries.
const INFO: usize = 84;
const GET: usize = 40;
/// `struct xt_entry_match` and `xt_entry_target`: size, name, revision.
const HEADER: usize = 32;
/// `NF_INET_PRE_ROUTING` and so on.
const HOOKS: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// The offsets of the fields in a `struct ipt_entry` or `ip6t_entry`, in octets.
#[derive(Debug, Clone, Copy)]
struct Layout {
    v6: bool,
    table: &'static str,
    protocol: usize,
    offsets: usize,
    packets: usize,
    size: usize,
}

const V4: Layout = Layout {
    v6: false,
    table: "legacy ip nat",
    protocol: 80,
    offsets: 88,
    packets: 96,
    size: 112,
};
const V6: Layout = Layout {
    v6: true,
    table: "legacy ip6 nat",
    protocol: 128,
    offsets: 140,
    packets: 152,
    size: 168,
};

/// Reads the rules of both families' table `nat` that send packets to other addresses. The request makes the kernel load
/// the table, so it is made only where that is in use. Errors: the kernel's.
pub fn read() -> anyhow::Result<Vec<Rule>> {
    let families = elsewhere::legacy()?.into_iter();
    let rules: Vec<Vec<Rule>> = families.map(of_family).collect::<anyhow::Result<_>>()?;
    Ok(rules.concat())
}

fn of_family(v6: bool) -> anyhow::Result<Vec<Rule>> {
    let family = if v6 {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    };
    let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // If rules change between the two requests, their size is another.
    consistent(|| {
        let info = ask(&socket, v6, GET_INFO, vec![0; INFO])?;
        let size = info.get(80..84).ok_or_else(|| io::Error::other("no size"))?;
        let mut question = vec![0; GET + word(&info, 80).unwrap_or_default()];
        question[32..36].copy_from_slice(size);
        match ask(&socket, v6, GET_ENTRIES, question) {
            Ok(answer) => {
                let entries = answer.get(GET..).unwrap_or_default();
                Ok(Some(rules(if v6 { V6 } else { V4 }, &hooks(&info), entries)))
            }
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

fn ask(socket: &OwnedFd, v6: bool, option: libc::c_int, mut question: Vec<u8>) -> io::Result<Vec<u8>> {
    question
        .get_mut(..4)
        .ok_or(io::ErrorKind::InvalidInput)?
        .copy_from_slice(b"nat\0");
    let level = if v6 { libc::IPPROTO_IPV6 } else { libc::IPPROTO_IP };
    let mut length = libc::socklen_t::try_from(question.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel writes at most `length` octets into a buffer that has as many.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            question.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    question.truncate(usize::try_from(length).unwrap_or_default());
    Ok(question)
}

/// The built-in chains by the offset of their first rule.
fn hooks(info: &[u8]) -> BTreeMap<usize, &'static str> {
    let valid = word(info, 32).unwrap_or_default();
    let is_valid = |hook: &usize| valid & (1 << hook) != 0;
    let hooks = (0..HOOKS.len()).filter(is_valid);
    hooks
        .filter_map(|hook| Some((word(info, 36 + 4 * hook)?, HOOKS[hook])))
        .collect()
}

fn rules(layout: Layout, hooks: &BTreeMap<usize, &'static str>, entries: &[u8]) -> Vec<Rule> {
    let (mut rules, mut chain, mut at) = (Vec::new(), String::new(), 0);
    while let Some(entry) = entries.get(at..).filter(|entry| entry.len() > layout.size) {
        let (Some(target), Some(next)) = (half(entry, layout.offsets), half(entry, layout.offsets + 2))
        else {
            break;
        };
        let Some(entry) = entry.get(..next).filter(|_| next > layout.size) else {
            break;
        };
        if let Some(name) = hooks.get(&at) {
            (*name).clone_into(&mut chain);
        }
        // A user-defined chain begins with a rule that never lets a packet through and has the chain's name.
        match entry.get(target..).and_then(extension) {
            Some(("ERROR", _, name)) => text(name).unwrap_or_default().clone_into(&mut chain),
            Some(("DNAT", revision, info)) => {
                rules.extend(rule(layout, &chain, entry, target, revision, info));
            }
            _ => {}
        }
        at += next;
    }
    rules
}

fn rule(layout: Layout, chain: &str, entry: &[u8], target: usize, revision: u8, info: &[u8]) -> Option<Rule> {
    let mut matches = entry.get(layout.size..target)?;
    let mut comment = None;
    while let Some((name, _, data)) = extension(matches) {
        if name == "comment" {
            comment = text(data);
        }
        matches = matches.get(half(matches, 0)?..)?;
    }
    let (service, port) = service(chain, comment).unzip();
    let packets = entry
        .get(layout.packets..)?
        .first_chunk()
        .map(|octets| u64::from_ne_bytes(*octets));
    let protocol = half(entry, layout.protocol).and_then(|number| u8::try_from(number).ok());
    Some(Rule {
        kind: Kind::IptablesRule,
        table: layout.table.to_owned(),
        chain: chain.to_owned(),
        service,
        port: port.flatten(),
        protocol: protocol.and_then(Protocol::from_number),
        packets,
        targets: vec![xt::dnat(layout.v6, revision.into(), info)?],
    })
}

/// Name, revision and data of a match or target.
fn extension(octets: &[u8]) -> Option<(&str, u8, &[u8])> {
    let size = half(octets, 0)?;
    let data = octets.get(HEADER..size)?;
    Some((text(octets.get(2..31)?)?, *octets.get(31)?, data))
}

fn text(octets: &[u8]) -> Option<&str> {
    let text = octets.split(|octet| *octet == 0).next()?;
    std::str::from_utf8(text).ok()
}

fn half(octets: &[u8], at: usize) -> Option<usize> {
    octets
        .get(at..)?
        .first_chunk()
        .map(|octets| u16::from_ne_bytes(*octets).into())
}

fn word(octets: &[u8], at: usize) -> Option<usize> {
    let number = octets
        .get(at..)?
        .first_chunk()
        .map(|octets| u32::from_ne_bytes(*octets))?;
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extension(name: &str, revision: u8, data: &[u8]) -> Vec<u8> {
        let size = (HEADER + data.len()).next_multiple_of(8);
        let mut octets = u16::try_from(size).unwrap().to_ne_bytes().to_vec();
        octets.extend(name.as_bytes());
        octets.resize(31, 0);
        octets.push(revision);
        octets.extend(data);
        octets.resize(size, 0);
        octets
    }

    fn entry(layout: Layout, protocol: u16, matches: &[u8], target: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; layout.size];
        let end = layout.size + matches.len();
        let offsets = [end, end + target.len()].map(|offset| u16::try_from(offset).unwrap().to_ne_bytes());
        octets[layout.protocol..][..2].copy_from_slice(&protocol.to_ne_bytes());
        octets[layout.offsets..][..4].copy_from_slice(&offsets.concat());
        octets[layout.packets..][..8].copy_from_slice(&5_u64.to_ne_bytes());
        [&octets[..], matches, target].concat()
    }

    fn table(layout: Layout) -> Vec<u8> {
        let comment = extension("comment", 0, b"shop/web:http\0");
        let range = [
            &[3, 0, 0, 0, 1, 2, 3, 4][..],
            &[0; 28],
            &[0, 80, 0, 80, 0, 0, 0, 0],
        ]
        .concat();
        let dnat = extension("DNAT", 2, &range);
        [
            entry(layout, 6, &[], &dnat),
            entry(layout, 0, &[], &extension("ERROR", 0, b"KUBE-SEP-A\0")),
            entry(layout, 6, &comment, &dnat),
            entry(layout, 0, &[], &extension("", 0, &[0; 8])),
        ]
        .concat()
    }

    #[test]
    fn a_rule_is_read_with_its_chain_its_service_and_its_counter() {
        for (layout, target) in [(V4, "1.2.3.4:80"), (V6, "[102:304::]:80")] {
            let rules = rules(layout, &[(0, "PREROUTING")].into(), &table(layout));
            let read: Vec<_> = rules
                .iter()
                .map(|rule| (rule.chain.as_str(), rule.service.as_deref()))
                .collect();
            assert_eq!(read, [("PREROUTING", None), ("KUBE-SEP-A", Some("shop/web"))]);
            assert_eq!(rules[1].targets, [target.parse().unwrap()]);
            assert_eq!(
                (rules[1].packets, rules[1].protocol),
                (Some(5), Some(Protocol::Tcp))
            );
            assert_eq!(rules[1].port.as_deref(), Some("http"));
        }
    }

    proptest! {
        #[test]
        fn a_broken_table_never_makes_it_panic_or_hang(cut in 0_usize..900, at in 0_usize..900, octet: u8) {
            for layout in [V4, V6] {
                let mut table = table(layout);
                let at = at % table.len();
                table[at] = octet;
                table.truncate(cut);
                let _ = rules(layout, &BTreeMap::new(), &table);
            }
        }
    }
}
