//! epguard's hooks, with tables written by hand.

use super::row::{PODS, SERVICE_PORT, VIPS};
use super::support::denied::deny;
use ::epguard::kernel::conntrack::nfct_at;
use ::epguard::kernel::datapath::{Datapath, Hooks};
use ::epguard::kernel::maps::{Writer, default_modes};
use epguard_common::{Mode, Role};
use epguard_core::state::Tables;
use epguard_lab::net::Topology;
use std::net::SocketAddrV4;
use std::path::Path;

/// What is denied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denials {
    None,
    /// 1,000 endpoints of the Services that are called, but not those that serve.
    Many,
}

/// Attached programs with their maps.
pub(crate) struct Epguard {
    datapath: Datapath,
    writer: Writer,
}

impl Epguard {
    /// Hooks the sockets below this root, where a load balancer is already.
    pub(crate) fn start(lab: &Topology, pins: &Path, root: &Path, denials: Denials) -> Self {
        let load = || Datapath::load(pins, Hooks::Auto, nfct_at().unwrap()).unwrap();
        let datapath = lab.netns("node-a").unwrap().run(load).unwrap();
        let mut datapath = datapath.with_cgroup(Some(root.to_owned()));
        let hooked = (0..2).any(|_| datapath.follow_socket_lb().unwrap());
        assert!(hooked, "{:?}", datapath.socket_lb());
        let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
        writer.config.configure(Mode::Enforce, default_modes(), false).unwrap();
        writer.view.judge_by_socket(true, true).unwrap();
        if denials == Denials::Many {
            writer.install(&tables()).unwrap();
        }
        writer.view.renew_lease(u64::MAX).unwrap();
        Self { datapath, writer }
    }

    /// Hooks the interfaces of both pods.
    pub(crate) fn hook(&mut self, lab: &Topology) {
        for pod in PODS {
            let name = &lab.pod(pod).unwrap().host_ifname;
            let hook = || {
                let ifindex = nix::net::if_::if_nametoindex(name.as_str()).unwrap();
                self.datapath.hook(ifindex, name).unwrap();
                ifindex
            };
            let ifindex = lab.netns("node-a").unwrap().run(hook).unwrap();
            self.writer.set_role(ifindex, Some(Role::Pod)).unwrap();
        }
    }
}

/// 500 denied endpoints of each Service.
fn tables() -> Tables {
    let mut tables = Tables::default();
    for (vip, number) in VIPS.into_iter().zip(1..) {
        for host in 0..500u16 {
            let [high, low] = host.to_be_bytes();
            let endpoint = SocketAddrV4::new([10, 245, vip[3] << 4 | high, low].into(), 8080);
            let vip = SocketAddrV4::new(vip.into(), SERVICE_PORT);
            deny(&mut tables, number, vip, endpoint);
        }
    }
    tables
}
