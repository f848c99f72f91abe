//! Beside a socket load balancer: hooks before and after it, and what becomes of calls and of
//! packets.

mod attached;
mod balancer;
mod calls;
mod packets;
mod records;
mod rig;

use super::agent::Agent;
use super::*;
use balancer::*;
use rig::*;
