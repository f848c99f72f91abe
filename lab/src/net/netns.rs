//! Named network namespaces: made, entered, and removed on drop.

use nix::libc;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::GetStruct;

use crate::files;

/// How the names of all namespaces begin.
const PREFIX: &str = "epg";
/// Directory of the namespaces that `ip netns` knows.
const DIRECTORY: &str = "/run/netns";

/// A network namespace named `epg<pid>-<serial>-<label>`, so that `ip -n` and `ip netns` know it.
/// Clones are the same namespace; the last one dropped removes the name, and the kernel removes the
/// namespace once no socket or process is left in it.
#[derive(Clone, Debug)]
pub struct NetNs(Arc<Named>);

#[derive(Debug)]
struct Named {
    name: String,
    path: PathBuf,
    file: File,
}

impl NetNs {
    /// Makes an empty namespace whose loopback is down. Needs root.
    pub fn new(label: &str) -> Result<Self> {
        let name = format!("{}-{}", files::own_name(PREFIX), label.replace('/', "."));
        let path = Path::new(DIRECTORY).join(&name);
        let file = create(&path)
            .with_context(|| format!("cannot make network namespace {name} (root is needed)"))?;
        Ok(Self(Arc::new(Named { name, path, file })))
    }

    /// The name under `/run/netns`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The file of the namespace, for `nsenter --net=`.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Runs `work` on a thread of its own inside the namespace. Sockets made there stay in it, even
    /// if other threads use them later; `/proc/sys/net` and `/proc/thread-self/net` are the
    /// namespace's, `/sys` is not.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| self.enter().map(|()| work()));
            inside
                .join()
                .map_err(|_| anyhow!("the work in network namespace {} panicked", self.name()))?
        })
    }

    /// As [`NetNs::run`], for work that may end with an error of the system.
    pub fn io<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.run(work).map_err(io::Error::other).flatten()
    }

    /// Moves the calling thread into the namespace for the rest of its life.
    pub fn enter(&self) -> Result<()> {
        setns(&self.0.file, CloneFlags::CLONE_NEWNET).with_context(|| {
            format!(
                "cannot enter network namespace {} (root is needed)",
                self.name()
            )
        })
    }

    /// A command whose process will run in the namespace. Unlike with `ip netns exec` it keeps the
    /// mounts, bpffs among them.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let named = Arc::clone(&self.0);
        // SAFETY: the closure only makes the system call setns, which is async-signal-safe, and
        // converts its error without allocating.
        unsafe {
            command.pre_exec(move || {
                setns(&named.file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
            });
        }
        command
    }

    /// Makes a device whose packets are read and written by the file, without blocking: frames if
    /// `tap`.
    pub fn tun(&self, name: &str, tap: bool) -> io::Result<File> {
        self.io(|| {
            let mut options = File::options();
            let file = options
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open("/dev/net/tun")?;
            // SAFETY: an all-zero ifreq is a valid one.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *to = libc::c_char::from_ne_bytes([from]);
            }
            let kind = if tap { libc::IFF_TAP } else { libc::IFF_TUN };
            request.ifr_ifru.ifru_flags =
                i16::try_from(kind | libc::IFF_NO_PI).map_err(io::Error::other)?;
            // SAFETY: an ifreq that lives through the call, and an open descriptor.
            let failed =
                unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
            if failed == 0 {
                Ok(file)
            } else {
                Err(io::Error::last_os_error())
            }
        })
    }

    /// Binds a TCP listener inside the namespace; port 0 takes a free one.
    pub fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        self.io(|| TcpListener::bind(address)).with_context(|| {
            format!(
                "cannot listen on {address} in network namespace {}",
                self.name()
            )
        })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the namespaces of lab processes that no longer run.
pub(super) fn remove_leftovers() {
    for left in files::leftovers(Path::new(DIRECTORY), PREFIX) {
        remove(&left);
    }
}

fn create(path: &Path) -> Result<File> {
    fs::create_dir_all(DIRECTORY)?;
    File::create_new(path)?;
    let made = thread::scope(|scope| {
        let unshared = scope.spawn(|| -> Result<()> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let own = "/proc/thread-self/ns/net";
            Ok(mount(
                Some(own),
                path,
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )?)
        });
        unshared
            .join()
            .map_err(|_| anyhow!("the thread that makes it panicked"))?
    });
    made.and_then(|()| Ok(File::open(path)?))
        .inspect_err(|_| remove(path))
}

/// Best effort: a name that is still in use is removed with the leftovers of the next start.
fn remove(path: &Path) {
    let _ = umount2(path, MntFlags::MNT_DETACH);
    let _ = fs::remove_file(path);
}

/// `SO_NETNS_COOKIE` of the network namespace that this thread is in. Linux 5.14.
pub fn netns_cookie() -> Result<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0")
        .or_else(|_| UdpSocket::bind("0.0.0.0:0"))
        .context("cannot make a socket")?;
    getsockopt(&socket, NetnsCookie).context("cannot read the network namespace's cookie")
}

/// The option. Its length is always 8: nix would panic at another one.
#[derive(Debug, Clone, Copy)]
struct NetnsCookie;

nix::getsockopt_impl!(
    NetnsCookie,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64,
    GetStruct<u64>
);
