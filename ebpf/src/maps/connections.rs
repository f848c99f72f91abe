//! CALL and CONNECTIONS: calls on their way through a socket load balancer, and where sockets are
//! connected.

use aya_ebpf::bindings::{__sk_buff, BPF_SK_STORAGE_GET_F_CREATE};
use aya_ebpf::btf_maps::{PerCpuArray, SkStorage};
use aya_ebpf::helpers::generated::bpf_sk_storage_get;
use aya_ebpf::macros::btf_map;
use aya_ebpf::programs::SockAddrContext;
use core::ffi::c_void;
use core::ptr::{addr_of, addr_of_mut, null_mut};
use epguard_common::{Call, Connection};

/// Written here.
#[btf_map]
static CALL: PerCpuArray<Call, 1> = PerCpuArray::new();
/// Written here. The memory belongs to each socket: it is charged to the socket and freed with it,
/// so no socket takes another's room, and a reused cookie finds nothing.
#[btf_map]
static CONNECTIONS: SkStorage<Connection> = SkStorage::new();

/// The call that this CPU has in hand; `None` only if the map is missing.
#[inline(always)]
pub fn call() -> Option<*mut Call> {
    CALL.get_ptr_mut(0)
}

/// Stores where the socket of a call is connected. False if the socket has no room.
#[inline(always)]
pub fn connect(ctx: &SockAddrContext, connection: &Connection) -> bool {
    let Some(entry) = of_call(ctx, BPF_SK_STORAGE_GET_F_CREATE.into()) else {
        return false;
    };
    // SAFETY: memory of the socket, which the call holds. A reader on another CPU sees the
    // connection as unsettled until all of it is written.
    unsafe {
        addr_of_mut!((*entry).settled_ns).write_volatile(u64::MAX);
        addr_of_mut!((*entry).vip).write_volatile(connection.vip);
        addr_of_mut!((*entry).endpoint).write_volatile(connection.endpoint);
        addr_of_mut!((*entry).epoch).write_volatile(connection.epoch);
        addr_of_mut!((*entry).settled_ns).write_volatile(connection.settled_ns);
    }
    true
}

/// What is recorded about the socket of a call, if anything is.
#[inline(always)]
pub fn connection(ctx: &SockAddrContext) -> Option<*mut Connection> {
    of_call(ctx, 0)
}

/// Where the socket of a call is connected, and a copy.
#[inline(always)]
pub fn connected(ctx: &SockAddrContext) -> Option<(*mut Connection, Connection)> {
    let entry = connection(ctx)?;
    // SAFETY: as in `connect`; every bit pattern is a Connection.
    Some((entry, unsafe { entry.read_volatile() }))
}

/// From now on no packet of the socket belongs to the connection.
#[inline(always)]
pub fn disconnect(entry: *mut Connection) {
    // SAFETY: as in `connect`.
    unsafe { addr_of_mut!((*entry).settled_ns).write_volatile(u64::MAX) };
}

/// From now on nothing that was recorded about the socket shows the Service of its packets. A
/// socket without room stays as it is.
#[inline(always)]
pub fn hide(ctx: &SockAddrContext) {
    if let Some(entry) = of_call(ctx, BPF_SK_STORAGE_GET_F_CREATE.into()) {
        disconnect(entry);
    }
}

/// Copies where the socket that sent a packet is connected; false if that is not known, as for a
/// call of the IP itself.
///
/// Errors: no socket of this machine sent the packet.
#[inline(always)]
pub fn read_connection(context: *mut __sk_buff, into: *mut Connection) -> Result<bool, ()> {
    // SAFETY: a field of the program's own context; the verifier demands the test for null.
    let socket = unsafe { (*context).__bindgen_anon_2.sk };
    if socket.is_null() {
        return Err(());
    }
    let Some(entry) = get(socket.cast(), 0) else {
        return Ok(false);
    };
    // SAFETY: memory of the socket, which the packet holds; the caller has room for a Connection,
    // of which every bit pattern is one. Unchanged before and after: no other CPU has written the
    // rest in between. Else no packet belongs to it.
    unsafe {
        let settled_ns = addr_of!((*entry).settled_ns).read_volatile();
        let words = size_of::<Connection>() / 8;
        for word in 0..words {
            let from = entry.cast::<u64>().add(word);
            into.cast::<u64>()
                .add(word)
                .write_volatile(from.read_volatile());
        }
        let unchanged = addr_of!((*entry).settled_ns).read_volatile() == settled_ns;
        addr_of_mut!((*into).settled_ns).write_volatile(if unchanged {
            settled_ns
        } else {
            u64::MAX
        });
        Ok(true)
    }
}

#[inline(always)]
fn of_call(ctx: &SockAddrContext, flags: u64) -> Option<*mut Connection> {
    // SAFETY: a field of the program's own context; the verifier demands the test for null.
    let socket = unsafe { (*ctx.sock_addr).__bindgen_anon_1.sk };
    if socket.is_null() {
        return None;
    }
    get(socket.cast(), flags)
}

/// The entry of a socket. A new one is all zero, which is settled: its endpoint is no packet's.
#[inline(always)]
fn get(socket: *mut c_void, flags: u64) -> Option<*mut Connection> {
    let map = addr_of!(CONNECTIONS).cast_mut().cast();
    // SAFETY: a map of the right type, and a socket of the program's own context, which was
    // compared with null.
    let entry = unsafe { bpf_sk_storage_get(map, socket, null_mut(), flags) }.cast::<Connection>();
    (!entry.is_null()).then_some(entry)
}
