//! Which kernel runs: some tests expect something else of an older one.

/// `(6, 1)` of `6.1.0-9-amd64`.
pub fn series() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}
