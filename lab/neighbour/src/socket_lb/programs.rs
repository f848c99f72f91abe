//! The hooks: `cil_sock4_connect()` and its siblings.

use super::context::{peer4, peer6, set_error, set_peer4, set_peer6};
use super::translate::{back, forward};
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

/// `SYS_REJECT`.
const REJECT: i32 = 0;
/// `SYS_PROCEED`.
const PROCEED: i32 = 1;

#[cgroup_sock_addr(connect4)]
pub fn sock4_connect(ctx: SockAddrContext) -> i32 {
    forward4(&ctx)
}

#[cgroup_sock_addr(connect6)]
pub fn sock6_connect(ctx: SockAddrContext) -> i32 {
    forward6(&ctx)
}

#[cgroup_sock_addr(sendmsg4)]
pub fn sock4_sendmsg(ctx: SockAddrContext) -> i32 {
    forward4(&ctx)
}

#[cgroup_sock_addr(sendmsg6)]
pub fn sock6_sendmsg(ctx: SockAddrContext) -> i32 {
    forward6(&ctx)
}

#[cgroup_sock_addr(recvmsg4)]
pub fn sock4_recvmsg(ctx: SockAddrContext) -> i32 {
    back4(&ctx)
}

#[cgroup_sock_addr(recvmsg6)]
pub fn sock6_recvmsg(ctx: SockAddrContext) -> i32 {
    back6(&ctx)
}

#[cgroup_sock_addr(getpeername4)]
pub fn sock4_getpeername(ctx: SockAddrContext) -> i32 {
    back4(&ctx)
}

#[cgroup_sock_addr(getpeername6)]
pub fn sock6_getpeername(ctx: SockAddrContext) -> i32 {
    back6(&ctx)
}

#[inline(always)]
fn forward4(ctx: &SockAddrContext) -> i32 {
    match forward(ctx, &peer4(ctx)) {
        Ok(Some(backend)) => set_peer4(ctx, &backend),
        Ok(None) => {}
        Err(errno) => return refuse(errno),
    }
    PROCEED
}

#[inline(always)]
fn forward6(ctx: &SockAddrContext) -> i32 {
    match forward(ctx, &peer6(ctx)) {
        Ok(Some(backend)) => set_peer6(ctx, &backend),
        Ok(None) => {}
        Err(errno) => return refuse(errno),
    }
    PROCEED
}

#[inline(always)]
fn refuse(errno: i32) -> i32 {
    set_error(errno);
    REJECT
}

#[inline(always)]
fn back4(ctx: &SockAddrContext) -> i32 {
    if let Some(vip) = back(ctx, &peer4(ctx)) {
        set_peer4(ctx, &vip);
    }
    PROCEED
}

#[inline(always)]
fn back6(ctx: &SockAddrContext) -> i32 {
    if let Some(vip) = back(ctx, &peer6(ctx)) {
        set_peer6(ctx, &vip);
    }
    PROCEED
}
