//! Finds out whether legacy iptables and IPVS are in use. They are read only then, since a request makes the kernel
//! load them.

use std::fs;
use std::io;
use std::path::Path;

/// Files that list the tables of legacy iptables; true for IPv6.
const LEGACY: [(bool, &str); 2] = [
    (false, "/proc/net/ip_tables_names"),
    (true, "/proc/net/ip6_tables_names"),
];
const IPVS: &str = "/proc/net/ip_vs";

/// For which families legacy iptables has a table that sends packets to other addresses: true for IPv6. Errors: a list
/// cannot be read.
pub fn legacy() -> io::Result<Vec<bool>> {
    let mut families = Vec::new();
    for (v6, path) in LEGACY {
        match fs::read_to_string(path) {
            Ok(names) if has_nat(&names) => families.push(v6),
            Ok(_) => {}
            // A kernel without the module has no such file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(families)
}

/// True if the tables include `nat`, the only one that sends packets to other addresses.
fn has_nat(names: &str) -> bool {
    names.lines().any(|name| name == "nat")
}

/// Whether IPVS is loaded.
pub fn ipvs() -> bool {
    Path::new(IPVS).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_table_that_sends_packets_to_other_addresses_is_read() {
        assert!(has_nat("filter\nnat\n"));
        assert!(!has_nat("filter\nmangle\n"));
        assert!(!has_nat(""));
    }
}
