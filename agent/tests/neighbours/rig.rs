//! Programs and maps over bpf(2), and a network namespace to attach them in.

use epguard::kernel::neighbours::{Found, Insn, Scanner};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The interface `pod` in the calling thread's network namespace from now on, and a bpffs.
pub struct Node {
    /// Where the bpffs is.
    pub dir: PathBuf,
}

impl Node {
    pub fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("epguard-scan-{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        run(&format!("mount -t bpf bpf {}", dir.display()));
        // SAFETY: moves only the calling thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        run("ip link add pod type veth peer name eth0");
        Self { dir }
    }

    /// Appends to a TCX hook of the interface.
    #[expect(clippy::unused_self, reason = "there is no interface without it")]
    pub fn attach(&self, program: &OwnedFd, hook: u32) {
        let program = program.as_raw_fd().cast_unsigned();
        bpf(8, &mut [ifindex(), program, hook, 0, 0, 0, 0, 0]);
    }

    pub fn pin(&self, program: &OwnedFd, name: &str) -> PathBuf {
        let path = self.dir.join(name);
        let text = CString::new(path.to_str().unwrap()).unwrap();
        let [low, high] = halves(text.as_ptr().addr());
        bpf(6, &mut [low, high, program.as_raw_fd().cast_unsigned(), 0]);
        path
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
        let _ = std::fs::remove_dir(&self.dir);
    }
}

pub fn survey(own: &BTreeSet<u32>) -> Vec<Found> {
    Scanner::new().unwrap().survey(own).unwrap().found
}

/// Of this network namespace's interfaces; programs of other tests may be anywhere.
pub fn here(found: &[Found]) -> Vec<&Found> {
    found.iter().filter(|found| found.ifindex.is_some()).collect()
}

pub fn ifindex() -> u32 {
    // SAFETY: a text that ends with a zero octet.
    unsafe { libc::if_nametoindex(c"pod".as_ptr()) }
}

/// Returns -1 (the next program runs) after a test of bits of `tc_index`.
pub fn reads_bit(bits: i32) -> Vec<Insn> {
    vec![
        insn(0x61, 2, 1, 44, 0),
        insn(0xb7, 0, 0, 0, -1),
        insn(0x45, 2, 0, 1, bits),
        insn(0xb7, 0, 0, 0, 0),
        insn(0x95, 0, 0, 0, 0),
    ]
}

/// Writes 0 to `tc_index`.
pub fn erases() -> Vec<Insn> {
    vec![
        insn(0xb7, 0, 0, 0, 0),
        insn(0x63, 1, 0, 44, 0),
        insn(0x95, 0, 0, 0, 0),
    ]
}

/// Calls the program at index 0 of a map.
pub fn tail_calls(map: &OwnedFd) -> Vec<Insn> {
    vec![
        insn(0x18, 2, 1, 0, map.as_raw_fd()),
        Insn::default(),
        insn(0xb7, 3, 0, 0, 0),
        insn(0x85, 0, 0, 0, 12),
        insn(0xb7, 0, 0, 0, -1),
        insn(0x95, 0, 0, 0, 0),
    ]
}

pub const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        off,
        imm,
    }
}

pub fn load(name: &str, program: &[Insn]) -> OwnedFd {
    let octets: Vec<u8> = program.iter().flat_map(|insn| insn.encode()).collect();
    let mut words = [0u32; 16];
    (words[0], words[1]) = (3, u32::try_from(program.len()).unwrap());
    [words[2], words[3]] = halves(octets.as_ptr().addr());
    [words[4], words[5]] = halves(c"GPL".as_ptr().addr());
    for (place, octet) in name.bytes().enumerate() {
        words[12 + place / 4] |= u32::from(octet) << (place % 4 * 8);
    }
    descriptor(bpf(5, &mut words))
}

pub fn prog_array() -> OwnedFd {
    descriptor(bpf(0, &mut [3, 4, 4, 8]))
}

pub fn put(map: &OwnedFd, key: u32, program: &OwnedFd) {
    let value = program.as_raw_fd();
    let [key_low, key_high] = halves(std::ptr::from_ref(&key).addr());
    let [low, high] = halves(std::ptr::from_ref(&value).addr());
    bpf(
        2,
        &mut [
            map.as_raw_fd().cast_unsigned(),
            0,
            key_low,
            key_high,
            low,
            high,
            0,
            0,
        ],
    );
}

/// From /proc: the kernel's id of an open program.
pub fn id(program: &OwnedFd) -> u32 {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("prog_id:"));
    line.unwrap().trim().parse().unwrap()
}

pub fn halves(address: usize) -> [u32; 2] {
    [0, 32].map(|shift| u32::try_from(address >> shift & 0xffff_ffff).unwrap())
}

pub fn descriptor(raw: i64) -> OwnedFd {
    // SAFETY: bpf() made it for us.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(raw).unwrap()) }
}

/// A command of bpf(2) by its number in `linux/bpf.h`, on little-endian machines.
pub fn bpf<const WORDS: usize>(command: i64, attr: &mut [u32; WORDS]) -> i64 {
    // SAFETY: integers with their size; addresses in them are those of values that live on in the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of_val(attr)) };
    assert!(result >= 0, "{command}: {}", std::io::Error::last_os_error());
    result
}

pub fn run(command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let output = Command::new(words[0])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(&words[1..])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {text}");
}
