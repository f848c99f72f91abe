//! The machine that a run was measured on.

use std::{fs, thread};

/// Processor, cores and kernel in a line.
pub(super) fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let guest = if is_guest(&processors) {
        ", virtual machine"
    } else {
        ""
    };
    format!(
        "{}, {cores} cores{guest}, Linux {}",
        model(&processors),
        kernel.trim()
    )
}

/// The first processor's name. On Arm there is only a number.
fn model(processors: &str) -> &str {
    let field = |name: &str| {
        let fields = processors.lines().filter_map(|line| line.split_once(':'));
        let mut named = fields.filter(|(key, _)| key.trim() == name);
        named.next().map(|(_, value)| value.trim())
    };
    field("model name")
        .or_else(|| field("CPU part"))
        .unwrap_or("unknown processor")
}

fn is_guest(processors: &str) -> bool {
    let mut flags = processors.lines().filter(|line| line.starts_with("flags"));
    flags
        .next()
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processors_name_and_the_hypervisors_flag_are_found() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nflags\t\t: fpu hypervisor sse\n";
        assert_eq!((model(text), is_guest(text)), ("A CPU @ 2 GHz", true));
        assert_eq!(
            (model(""), is_guest("flags\t: fpu")),
            ("unknown processor", false)
        );
    }
}
