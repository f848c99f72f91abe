//! A hierarchy of cgroups of a test's own, and a socket load balancer of one Service there:
//! programs that replace one destination by another, as Cilium's do it.

use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd, bpf_prog_type};
use epguard::kernel::datapath::bpf::{bpf, descriptor};
use epguard::kernel::datapath::find_cgroup2;
use nix::libc;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const ALLOW_MULTI: u32 = 1 << 1;

/// The hooks, with the offset of IPv4's destination in `struct bpf_sock_addr`; in a v4-mapped
/// address it is the last word.
const HOOKS: [(bpf_attach_type, u16); 4] = [
    (bpf_attach_type::BPF_CGROUP_INET4_CONNECT, 4),
    (bpf_attach_type::BPF_CGROUP_INET6_CONNECT, 20),
    (bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG, 4),
    (bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG, 20),
];

/// Programs that are attached to a cgroup until they are dropped.
pub struct Balancer {
    cgroup: PathBuf,
    programs: Vec<(bpf_attach_type, OwnedFd)>,
}

impl Balancer {
    /// Attaches programs that send calls for `vip` to `endpoint`.
    pub fn attach(cgroup: &Path, vip: SocketAddrV4, endpoint: SocketAddrV4) -> Self {
        Self::attach_at(cgroup, |hook, at| replacement(hook, at, vip, endpoint))
    }

    /// Attaches programs that let every call fail with `EACCES`.
    pub fn attach_failing(cgroup: &Path) -> Self {
        /// `bpf_set_retval`.
        const SET_RETVAL: u32 = 187;
        let instructions = [
            instruction(0xb7, 0x01, 0, (-libc::EACCES).cast_unsigned()),
            instruction(0x85, 0, 0, SET_RETVAL),
            instruction(0xb7, 0x00, 0, 0),
            instruction(0x95, 0x00, 0, 0),
        ];
        Self::attach_at(cgroup, |hook, _| load(hook, &instructions))
    }

    fn attach_at(
        cgroup: &Path,
        load: impl Fn(bpf_attach_type, u16) -> io::Result<OwnedFd>,
    ) -> Self {
        let programs = HOOKS.map(|(hook, at)| (hook, load(hook, at).unwrap()));
        let balancer = Self {
            cgroup: cgroup.to_owned(),
            programs: programs.into(),
        };
        balancer.again();
        balancer
    }

    /// Attaches them behind all programs that are there now, as after a restart.
    pub fn again(&self) {
        for (hook, program) in &self.programs {
            let _ = operate(bpf_cmd::BPF_PROG_DETACH, &self.cgroup, program, *hook, 0);
            operate(
                bpf_cmd::BPF_PROG_ATTACH,
                &self.cgroup,
                program,
                *hook,
                ALLOW_MULTI,
            )
            .unwrap();
        }
    }

    /// Detaches those of IPv4, or of IPv6.
    pub fn leave(&mut self, v4: bool) {
        self.leave_where(|hook| [HOOKS[0].0, HOOKS[2].0].contains(hook) == v4);
    }

    /// Detaches those of datagrams.
    pub fn leave_datagrams(&mut self) {
        self.leave_where(|hook| [HOOKS[2].0, HOOKS[3].0].contains(hook));
    }

    fn leave_where(&mut self, leaves: impl Fn(&bpf_attach_type) -> bool) {
        for (hook, program) in self.programs.extract_if(.., |(hook, _)| leaves(hook)) {
            operate(bpf_cmd::BPF_PROG_DETACH, &self.cgroup, &program, hook, 0).unwrap();
        }
    }

    /// Attaches them as Cilium up to 1.13 does: alone.
    pub fn alone(&self) {
        for (hook, program) in &self.programs {
            operate(bpf_cmd::BPF_PROG_DETACH, &self.cgroup, program, *hook, 0).unwrap();
            operate(bpf_cmd::BPF_PROG_ATTACH, &self.cgroup, program, *hook, 0).unwrap();
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        for (hook, program) in &self.programs {
            let _ = operate(bpf_cmd::BPF_PROG_DETACH, &self.cgroup, program, *hook, 0);
        }
    }
}

/// Lets the calling thread make sockets in the pod's cgroup while it acts. The directories become
/// threaded: then a thread alone can be in one of them.
pub fn inside<T>(root: &Root, act: impl FnOnce() -> T) -> T {
    let above = root.path.parent().unwrap();
    for directory in [above, &root.path, &root.pod] {
        fs::write(directory.join("cgroup.type"), "threaded").unwrap();
    }
    let thread = nix::unistd::gettid().to_string();
    fs::write(root.pod.join("cgroup.threads"), &thread).unwrap();
    let result = act();
    fs::write(above.parent().unwrap().join("cgroup.threads"), &thread).unwrap();
    result
}

fn operate(
    command: bpf_cmd,
    cgroup: &Path,
    program: &OwnedFd,
    hook: bpf_attach_type,
    flags: u32,
) -> io::Result<()> {
    let directory = File::open(cgroup)?;
    let mut attr = [0u32; 8];
    attr[0] = directory.as_raw_fd().cast_unsigned();
    attr[1] = program.as_raw_fd().cast_unsigned();
    attr[2] = hook as u32;
    attr[3] = flags;
    // SAFETY: eight words laid out as the kernel's, without a pointer.
    unsafe { bpf(command, &mut attr) }.map(drop)
}

/// Loads a program that replaces one IPv4 address by an endpoint; the port does not count.
fn replacement(
    hook: bpf_attach_type,
    at: u16,
    vip: SocketAddrV4,
    endpoint: SocketAddrV4,
) -> io::Result<OwnedFd> {
    const PORT_AT: u16 = 24;
    let [vip_ip, ip] = [vip, endpoint].map(|at| u32::from_ne_bytes(at.ip().octets()));
    let port = u32::from(endpoint.port().to_be());
    let instructions = [
        instruction(0x61, 0x12, at, 0),
        // Jumps over the four that replace.
        instruction(0x56, 0x02, 4, vip_ip),
        instruction(0xb4, 0x03, 0, ip),
        instruction(0x63, 0x31, at, 0),
        instruction(0xb4, 0x03, 0, port),
        instruction(0x63, 0x31, PORT_AT, 0),
        instruction(0xb7, 0x00, 0, 1),
        instruction(0x95, 0x00, 0, 0),
    ];
    load(hook, &instructions)
}

fn load(hook: bpf_attach_type, instructions: &[u64]) -> io::Result<OwnedFd> {
    // SAFETY: every field may be zero.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    attr.__bindgen_anon_3.prog_type = bpf_prog_type::BPF_PROG_TYPE_CGROUP_SOCK_ADDR as u32;
    attr.__bindgen_anon_3.expected_attach_type = hook as u32;
    attr.__bindgen_anon_3.insn_cnt = u32::try_from(instructions.len()).unwrap();
    attr.__bindgen_anon_3.insns = instructions.as_ptr().addr() as u64;
    attr.__bindgen_anon_3.license = c"GPL".as_ptr().addr() as u64;
    // SAFETY: sixteen octets with the last one.
    attr.__bindgen_anon_3.prog_name =
        unsafe { c"cil_sock_connec".as_ptr().cast::<[_; 16]>().read() };
    // SAFETY: the pointers in it lead to what lives, and the command makes a descriptor for us.
    unsafe { descriptor(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?) }
}

/// `struct bpf_insn`: operation, source and destination register, offset, number.
const fn instruction(operation: u8, registers: u8, offset: u16, number: u32) -> u64 {
    operation as u64 | (registers as u64) << 8 | (offset as u64) << 16 | (number as u64) << 32
}

/// A directory that stands for the root of the mount, two levels below it: agents of other tests
/// hook the level between.
pub struct Root {
    pub path: PathBuf,
    /// The cgroup of a pod in it.
    pub pod: PathBuf,
}

impl Root {
    pub fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let above = format!("epguard-life-{}-{serial}", std::process::id());
        let path = find_cgroup2(None).unwrap().join(above).join("root");
        let pod = path.join("kubepods");
        fs::create_dir_all(&pod).unwrap();
        Self { path, pod }
    }

    pub fn child(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.path).unwrap().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.path);
        let _ = fs::remove_dir(self.path.parent().unwrap());
    }
}
