//! Stale packets, put into the node's uplink as a driver does it: the kernel makes the frames (`BPF_F_TEST_XDP_LIVE_FRAMES`,
//! Linux 5.18), runs an XDP program on each, and passes what the program passes to the IP stack.

use super::bed::Bed;
use ::epguard::kernel::datapath::{Datapath, Hooks, Xdp};
use aya::programs::{TestRun as _, TestRunAttrs, TestRunOptions, Xdp as Program};
use epguard_lab::process::output;
use epguard_lab::scenario::workdir::Workdir;
use nix::net::if_::if_nametoindex;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A pod of another node.
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 244, 2, 9);

/// A program that passes all frames, for nodes without XDP: epguard's with empty maps, which costs some nanoseconds.
pub(crate) struct Passing {
    datapath: Datapath,
    _workdir: Workdir,
}

impl Passing {
    pub(crate) fn load() -> Self {
        let workdir = Workdir::new().unwrap();
        let datapath = Datapath::load(&workdir.pins().join("epguard"), Hooks::Auto, 0).unwrap();
        Self { datapath: datapath.with_xdp(Xdp::Driver).unwrap(), _workdir: workdir }
    }

    pub(crate) fn program(&mut self) -> &mut Program {
        let program = self.datapath.ebpf.program_mut("epguard_xdp").unwrap();
        program.try_into().unwrap()
    }
}

/// Frames that the kernel makes at a time.
const FRAMES: u32 = 64;

/// Frames for the uplink.
pub(crate) struct Generator {
    frames: Vec<Vec<u8>>,
    next: usize,
    context: Vec<u8>,
    /// Whether the node drops the frames before it writes to them.
    stays: bool,
}

impl Generator {
    /// UDP packets to these destinations, in turns. `stays`: the node drops them before it writes to them. The calling thread is in the node's network namespace.
    pub(crate) fn new(bed: &Bed, to: impl IntoIterator<Item = SocketAddrV4>, stays: bool) -> Self {
        let mac = mac(bed);
        let frames: Vec<Vec<u8>> = to.into_iter().map(|to| frame(mac, to)).collect();
        let length = u32::try_from(frames[0].len()).unwrap();
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
        let context = [0, length, 0, if_nametoindex("eth0").unwrap(), 0, 0];
        Self { frames, next: 0, stays, context: context.iter().flat_map(|word| word.to_ne_bytes()).collect() }
    }

    /// Sends this many packets to the next destination.
    pub(crate) fn send(&mut self, program: &Program, packets: u32) {
        // The kernel uses a frame again as the node has left it. After DNAT it would go elsewhere.
        let at_once = if self.stays { packets } else { FRAMES };
        for begun in (0..packets).step_by(at_once as usize) {
            let options = TestRunOptions {
                data_in: Some(&self.frames[self.next]),
                ctx_in: Some(&self.context),
                repeat: at_once.min(packets - begun),
                attrs: TestRunAttrs::new().xdp_live_frames(FRAMES),
                ..TestRunOptions::default()
            };
            program.test_run(options).unwrap();
        }
        self.next = (self.next + 1) % self.frames.len();
    }
}

/// The link-layer address of the uplink.
fn mac(bed: &Bed) -> [u8; 6] {
    let mut ip = bed.node().command("ip");
    let listed = output(ip.args(["-json", "link", "show", "eth0"])).unwrap();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let octets = listed[0]["address"].as_str().unwrap().split(':');
    let octets = octets.map(|octet| u8::from_str_radix(octet, 16).unwrap());
    octets.collect::<Vec<_>>().try_into().unwrap()
}

/// A frame of the least length, with a UDP datagram without a checksum.
fn frame(mac: [u8; 6], to: SocketAddrV4) -> Vec<u8> {
    const UDP: u8 = 17;
    let mut header = vec![0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, UDP, 0, 0];
    header.extend(SENDER.octets());
    header.extend(to.ip().octets());
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    header[10..12].copy_from_slice(&(!folded).to_be_bytes());
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    frame.extend(header);
    frame.extend([4000u16, to.port(), 26, 0].iter().flat_map(|half| half.to_be_bytes()));
    frame.resize(60, 0);
    frame
}
