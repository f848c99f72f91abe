//! XDP at uplinks: packets that TC would drop as `terminated` are dropped, or answered with a RST,
//! before an skb is made of them. TC handles everything else and is always attached. So nothing is
//! counted twice, and an uplink without XDP loses no protection.

use super::hook::Xdp;
use super::xdp_device::{Device, XdpMode, hides_tags};
use super::{Datapath, bpf, links, object};
use anyhow::{Context as _, Result, bail, ensure};
use aya::maps::{HashMap, MapData};
use aya_obj::generated::bpf_attach_type;
use epguard_common::Mac;
use std::os::fd::AsFd as _;

impl Datapath {
    /// Turns on XDP at uplinks. The error: this kernel cannot, and `--xdp` demands it.
    pub fn with_xdp(mut self, xdp: Xdp) -> Result<Self> {
        self.xdp = xdp;
        if xdp != Xdp::Off
            && let Err(error) = object::load_xdp(&mut self.ebpf)
        {
            ensure!(!xdp.is_demanded(), "{error:#}, which --xdp requires");
            tracing::warn!(error = format!("{error:#}"), "no XDP: TC judges alone");
        }
        Ok(self)
    }

    /// Whether [`Datapath::hook_xdp`] must not fail.
    pub const fn demands_xdp(&self) -> bool {
        self.xdp.is_demanded()
    }

    /// Attaches the XDP program to an uplink, or puts it into the link of an earlier process;
    /// returns at once if it is there. False if XDP is off. Errors: this device cannot have the
    /// program, or must not.
    pub fn hook_xdp(&mut self, ifindex: u32, interface: &str) -> Result<bool> {
        if self.xdp == Xdp::Off {
            return Ok(false);
        }
        let attached = self.attach_xdp(ifindex, interface);
        if attached.is_err() {
            self.unhook_xdp(ifindex)?;
        }
        attached.map(|()| true)
    }

    /// Detaches the XDP program; false if it was not there.
    pub fn unhook_xdp(&mut self, ifindex: u32) -> Result<bool> {
        let removed = links::detach_xdp(&self.pins, ifindex)?;
        // Mostly there is no entry. One that stays behind denies nothing without a program.
        let _ = self.macs()?.remove(&ifindex);
        Ok(removed)
    }

    fn attach_xdp(&mut self, ifindex: u32, interface: &str) -> Result<()> {
        let device = Device::look(ifindex).context("cannot read the interface (rtnetlink)")?;
        let mac = device
            .mac
            .context("XDP: the interface is no Ethernet device")?;
        if self.xdp == Xdp::Auto {
            check_auto(&device, interface)?;
        }
        ensure!(
            !matches!(device.interface.kind.as_str(), "bond" | "team"),
            "XDP: frames of a {} have the interface number of its port: give its ports as --uplinks instead",
            device.interface.kind
        );
        let mac = Mac {
            octets: mac,
            sends: sends(&device).into(),
            reserved: 0,
        };
        self.macs()?
            .insert(ifindex, mac, 0)
            .context("XDP: cannot write MACS")?;
        let program = object::xdp(&mut self.ebpf)?;
        let id = program
            .info()
            .context("XDP: this kernel did not take the program")?
            .id();
        if device.programs.is_empty()
            && let Some(refusal) = self.xdp_refused.get(&ifindex)
        {
            bail!("{refusal}");
        }
        let pin = self.pins.xdp_link(ifindex);
        if device.program(XdpMode::Driver) == Some(id) && pin.exists() {
            return Ok(());
        }
        for link in self.pins.foreign_xdp_links(ifindex)? {
            links::remove(&link)?;
        }
        let program = program.fd()?.try_clone()?;
        // A link may have moved away with its interface.
        let sound = |_: &_| Ok(Device::look(ifindex)?.program(XdpMode::Driver) == Some(id));
        let attached = links::attach(
            &pin,
            program.as_fd(),
            (bpf::Target::Interface(ifindex), DRIVER_MODE),
            bpf_attach_type::BPF_XDP,
            sound,
        );
        attached
            .map(drop)
            .map_err(|error| self.refusal(error, ifindex))
    }

    /// Adds the cause to the kernel's error number: a program that is there already, or the driver.
    fn refusal(&mut self, error: anyhow::Error, ifindex: u32) -> anyhow::Error {
        let there = Device::look(ifindex).map(|device| device.programs.first().copied());
        match there {
            Ok(Some((where_, id))) => {
                let mode = where_.map_or("hardware".to_owned(), |mode| mode.to_string());
                let theirs = bpf::describe_program(id);
                error.context(format!(
                    "XDP: {theirs} of another owner is attached and stays, in {mode} mode"
                ))
            }
            Ok(None) => {
                let error = error.context("XDP: the device takes no program in driver mode");
                self.xdp_refused.insert(ifindex, format!("{error:#}"));
                error
            }
            Err(_) => error,
        }
    }

    fn macs(&mut self) -> Result<HashMap<&mut MapData, u32, Mac>> {
        let map = self
            .ebpf
            .map_mut("MACS")
            .context("the eBPF object has no map MACS")?;
        Ok(map.try_into()?)
    }
}

/// `XDP_FLAGS_DRV_MODE` of `linux/if_link.h`.
const DRIVER_MODE: u32 = 1 << 2;
/// Checks an interface that the operator did not choose for XDP: it must be worth it, and a tagged
/// frame must never pass for an untagged one.
fn check_auto(device: &Device, interface: &str) -> Result<()> {
    ensure!(
        device.interface.kind.is_empty(),
        "XDP gains little on a {}: its packets are skbs already (--xdp driver attaches nevertheless)",
        device.interface.kind
    );
    ensure!(
        !hides_tags(interface),
        "XDP would not see VLAN tags: the device takes them off (ethtool -K {interface} rxvlan off), or --xdp driver if there are none"
    );
    Ok(())
}

/// Whether a packet that an XDP program sends leaves the device. Most drivers with native XDP send
/// it. A veth pair loses it unless its other end runs XDP itself. From a bond's port it could make
/// the switch assume that the bond is there.
fn sends(device: &Device) -> bool {
    let is_port = device.interface.master.is_some_and(|master| master != 0);
    device.interface.kind != "veth" && !is_port
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::netlink::Interface;

    fn of_kind(kind: &str) -> Device {
        Device {
            interface: Interface {
                kind: kind.to_owned(),
                ..Interface::default()
            },
            ..Device::default()
        }
    }

    #[test]
    fn xdp_is_attached_by_default_only_to_hardware_that_keeps_vlan_tags() {
        assert!(check_auto(&of_kind(""), "lo").is_ok());
        assert!(check_auto(&of_kind("veth"), "lo").is_err());
        // A device that does not report the feature counts as hiding tags.
        assert!(check_auto(&of_kind(""), "no-such-device").is_err());
    }

    #[test]
    fn xdp_leaves_answers_to_tc_on_devices_that_may_lose_them() {
        assert!(sends(&of_kind("")) && sends(&of_kind("tun")));
        assert!(!sends(&of_kind("veth")));
        let port = Interface {
            master: Some(3),
            ..Interface::default()
        };
        let port = Device {
            interface: port,
            ..Device::default()
        };
        assert!(!sends(&port));
    }
}
