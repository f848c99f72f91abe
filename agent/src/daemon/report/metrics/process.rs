//! What the agent itself uses: CPU, memory, files. Names and meaning are those of Prometheus' own
//! clients: `process_*`.

use super::encode::{Counter, Gauge, metrics};
use anyhow::{Context as _, Result};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::{SysconfVar, sysconf};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::time::Duration;
use std::{fmt, fs};

/// What the process uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Process {
    /// User and system time since its start.
    pub cpu: Duration,
    /// Memory that it occupies, octets.
    pub resident_bytes: u64,
    /// Address space that it has, octets.
    pub virtual_bytes: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// The most file descriptors that it may open.
    pub max_fds: u64,
    /// When it started, in seconds since 1970.
    pub start_time: f64,
}

impl Process {
    /// Reads those of this process from /proc. Errors name the file.
    pub fn read() -> Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let statm = read("/proc/self/statm")?;
        let mut pages = statm.split_ascii_whitespace();
        let page = constant(SysconfVar::PAGE_SIZE)?;
        let virtual_bytes = page * number(pages.next(), "/proc/self/statm")?;
        let resident_bytes = page * number(pages.next(), "/proc/self/statm")?;
        let (max_fds, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let fds = fs::read_dir("/proc/self/fd").context("cannot list /proc/self/fd")?;
        Ok(Self {
            cpu: duration(usage.user_time()) + duration(usage.system_time()),
            resident_bytes,
            virtual_bytes,
            // One is that of the listing.
            open_fds: (fds.count() as u64).saturating_sub(1),
            max_fds,
            start_time: start_time()?,
        })
    }
}

impl Collector for Process {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        metrics! { &mut to;
            Counter cpu_seconds() "User and system time of the agent"
                => [([], self.cpu.as_secs_f64())];
            Gauge resident_memory_bytes() "Memory that the agent occupies, without its maps in the kernel"
                => [([], self.resident_bytes)];
            Gauge virtual_memory_bytes() "Address space of the agent"
                => [([], self.virtual_bytes)];
            Gauge open_fds() "Open file descriptors of the agent"
                => [([], self.open_fds)];
            Gauge max_fds() "The most file descriptors that the agent may open"
                => [([], self.max_fds)];
            Gauge start_time_seconds() "When the agent started, in seconds since 1970"
                => [([], self.start_time)];
        }
        Ok(())
    }
}

/// The boot's time, and the ticks from there to the start: field 22 of proc(5)'s `stat`, the 20th
/// behind the command's name, which may contain blanks and brackets.
fn start_time() -> Result<f64> {
    let kernel = read("/proc/stat")?;
    let boot = kernel.lines().find_map(|line| line.strip_prefix("btime "));
    let boot = number(boot, "/proc/stat")?;
    let own = read("/proc/self/stat")?;
    let behind_name = own.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = behind_name.split_ascii_whitespace().nth(19);
    let ticks = number(ticks, "/proc/self/stat")?;
    let per_second = constant(SysconfVar::CLK_TCK)?;
    let since_boot = Duration::from_millis(ticks * 1000 / per_second);
    Ok((Duration::from_secs(boot) + since_boot).as_secs_f64())
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {file}"))
}

fn number(word: Option<&str>, file: &str) -> Result<u64> {
    let number = word.and_then(|word| word.parse().ok());
    number.with_context(|| format!("{file} is not as proc(5) describes it"))
}

/// A constant of the system that is above 0: ticks of a second, or octets of a page.
fn constant(name: SysconfVar) -> Result<u64> {
    let value = sysconf(name)?.and_then(|value| u64::try_from(value).ok());
    value
        .filter(|value| *value > 0)
        .with_context(|| format!("sysconf knows no {name:?}"))
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::SystemTime;

    #[test]
    fn a_process_has_started_before_now_and_sees_its_own_memory_and_files() {
        let before = Process::read().unwrap();
        let memory = vec![1_u8; 64 << 20];
        let files: Vec<File> = (0..50).map(|_| File::open("/proc/stat").unwrap()).collect();
        let after = Process::read().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age = now.unwrap().as_secs_f64() - after.start_time;
        assert!((-1.0..86_400.0).contains(&age), "{age}");
        // Other tests of this binary open and close files meanwhile.
        assert!(
            after.open_fds >= before.open_fds + 25,
            "{before:?} {after:?}"
        );
        assert!(after.max_fds >= after.open_fds, "{after:?}");
        assert!(
            after.resident_bytes >= before.resident_bytes + (32 << 20),
            "{before:?} {after:?}"
        );
        assert!(after.virtual_bytes >= after.resident_bytes, "{after:?}");
        assert!(
            after.cpu >= before.cpu && after.cpu > Duration::ZERO,
            "{after:?}"
        );
        drop((memory, files));
    }
}
