//! The program by which the kernel selects the sockets that it lists (`INET_DIAG_REQ_BYTECODE`).

use epguard_common::Vip;

/// Most peers in one program. The kernel checks a program in a time that grows with the square of their number.
pub const MOST: usize = 256;

const JMP: u8 = 1;
const D_COND: u8 = 8;
const INET: u8 = 2;
const INET6: u8 = 10;
/// Length of `struct inet_diag_bc_op`: code, distance if true, distance if false.
const OP: usize = 4;

/// A program that accepts a socket whose peer is one of these. Each peer has one condition and one jump. If the
/// condition holds, the program continues with the jump, which leads to the end. If not, it continues with the next
/// condition. A jump past the end rejects the socket.
pub fn peers(vips: &[Vip]) -> Vec<u8> {
    let mut program = Vec::new();
    for (index, vip) in vips.iter().rev().enumerate() {
        let behind = program.len();
        let condition = condition(vip);
        let size = OP + condition.len();
        let mut ops = op(D_COND, size, size + OP);
        ops.extend(condition);
        // The last condition needs no jump: the end follows it.
        if index > 0 {
            ops.extend(op(JMP, OP, OP + behind));
        }
        ops.append(&mut program);
        program = ops;
    }
    program
}

fn op(code: u8, yes: usize, no: usize) -> Vec<u8> {
    let yes = u8::try_from(yes).unwrap_or(u8::MAX);
    let no = u16::try_from(no).unwrap_or(u16::MAX);
    [&[code, yes][..], &no.to_ne_bytes()].concat()
}

/// `struct inet_diag_hostcond`.
fn condition(vip: &Vip) -> Vec<u8> {
    let octets = vip.addr.octets;
    let (family, octets) = if vip.addr.is_v4() {
        (INET, &octets[12..])
    } else {
        (INET6, &octets[..])
    };
    let bits = u8::try_from(octets.len() * 8).unwrap_or(u8::MAX);
    let port = i32::from(vip.port).to_ne_bytes();
    [&[family, bits, 0, 0][..], &port, octets].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::Addr;

    #[test]
    fn each_condition_leads_to_the_end_or_to_the_next_one() {
        let vip = |last| Vip {
            addr: Addr::v4([10, 0, 0, last]),
            port: 80,
            protocol: 6,
            reserved: 0,
        };
        let program = peers(&[vip(1), vip(2)]);
        let codes: Vec<(u8, u8, u16)> = [0, 16, 20]
            .map(|at| {
                (
                    program[at],
                    program[at + 1],
                    u16::from_ne_bytes([program[at + 2], program[at + 3]]),
                )
            })
            .into();
        assert_eq!(codes, [(D_COND, 16, 20), (JMP, 4, 20), (D_COND, 16, 20)]);
        assert_eq!(program.len(), 36, "the jump ends there, and past it is no");
        assert_eq!((program[15], program[35]), (1, 2));
    }
}
