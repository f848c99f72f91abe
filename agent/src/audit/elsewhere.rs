//! Where else a kernel can be told to send packets, which is not looked at.

use std::fs;
use std::io;

/// Tables of iptables-legacy, by the family's program.
const LEGACY: [(&str, &str); 2] = [
    ("/proc/net/ip_tables_names", "iptables-legacy-save"),
    ("/proc/net/ip6_tables_names", "ip6tables-legacy-save"),
];
const IPVS: &str = "/proc/net/ip_vs";

/// What is there and was not looked at, one line each, with what shows it.
pub fn unseen() -> Vec<String> {
    let legacy = LEGACY.map(|(path, program)| line(path, |names| legacy(names, program)));
    legacy.into_iter().chain([line(IPVS, ipvs)]).flatten().collect()
}

/// A kernel without the module has no such file.
fn line(path: &str, judge: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    match fs::read_to_string(path) {
        Ok(text) => judge(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("{path}: {error}: run this as root")),
    }
}

/// Only the table `nat` sends packets elsewhere.
fn legacy(names: &str, program: &str) -> Option<String> {
    let nat = names.lines().any(|name| name == "nat");
    nat.then(|| format!("rules of legacy iptables: `{program} -t nat` shows them"))
}

/// Each Service is a line that begins with its protocol; its destinations are indented, and so is one line of the heading.
fn ipvs(table: &str) -> Option<String> {
    const SERVICES: [&str; 4] = ["TCP ", "UDP ", "SCTP ", "FWM "];
    let is_service = |line: &&str| SERVICES.iter().any(|name| line.starts_with(name));
    let count = table.lines().filter(is_service).count();
    (count > 0)
        .then(|| format!("{count} Services of IPVS: `ipvsadm -Ln` shows them; their flows are in conntrack"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_legacy_tables_that_send_packets_elsewhere_are_named() {
        assert!(legacy("filter\nnat\n", "iptables-legacy-save").is_some());
        assert_eq!(legacy("filter\nmangle\n", "iptables-legacy-save"), None);
        assert_eq!(legacy("", "iptables-legacy-save"), None);
    }

    #[test]
    fn ipvs_is_named_if_it_has_services() {
        let heading = "IP Virtual Server version 1.2.1 (size=4096)\n\
                       Prot LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n";
        assert_eq!(ipvs(heading), None);
        let table =
            format!("{heading}TCP  0A600001:0050 rr\n  -> 0AF4010A:1F90      Masq    1      0          0\n");
        assert!(ipvs(&table).unwrap().starts_with("1 Services of IPVS"));
    }

    #[test]
    fn a_file_that_is_not_there_is_no_news() {
        assert_eq!(line("/proc/net/no-such-table", |_| Some(String::new())), None);
    }
}
