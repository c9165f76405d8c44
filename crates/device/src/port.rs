//! Attributes of the device and its port (`ibv_query_device`, `ibv_query_port`).

use std::num::NonZeroU8;

use uroce_wire::{Gid, Mtu};

use crate::gid::{gid_at, guid_of};
use crate::interface::Interface;
use crate::limits::{DeviceLimits, GID_TABLE_LEN};
use crate::port_watch::PortStatus;

/// State of a port, with the values of `ibv_port_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortState {
    /// The netdev is down, or has no carrier.
    Down = 1,
    /// The netdev is up and has a carrier.
    Active = 4,
}

/// `ibv_port_attr`, as far as it means something on Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAttr {
    /// From the netdev, at the time of the query.
    pub state: PortState,
    /// Largest path MTU of the implementation: 4096.
    pub max_mtu: Mtu,
    /// Largest path MTU that fits the link: netdev MTU - 80, rounded down to an IBTA size.
    pub active_mtu: Mtu,
    /// Entries in the GID table.
    pub gid_tbl_len: u32,
    /// Entries in the P_Key table: one, 0xffff.
    pub pkey_tbl_len: u16,
    /// Largest message in bytes: 2^31.
    pub max_msg_sz: u32,
    /// `ibv_port_attr.active_width`: 1 (1x), 2 (4x).
    pub active_width: u8,
    /// `ibv_port_attr.active_speed_ex`: 1 SDR (2.5 Gb/s per lane), 4 QDR (10), 32 EDR (25), 64 HDR (50), 128 NDR
    /// (100), 256 XDR (200).
    pub active_speed: u16,
    /// Link layer of the port: 2, Ethernet.
    pub link_layer: u8,
}

/// Attributes of a device (`ibv_device_attr`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAttr {
    /// Version of this software, in the place of a firmware version.
    pub fw_ver: &'static str,
    /// The EUI-64 by which the device is known, in host order.
    pub node_guid: u64,
    /// Equal to `node_guid`, as a device is a system of its own.
    pub sys_image_guid: u64,
    /// Largest memory region in bytes: unlimited.
    pub max_mr_size: u64,
    /// 4 KiB pages and everything larger.
    pub page_size_cap: u64,
    /// 0xffffff, as rxe: no vendor that IEEE has registered.
    pub vendor_id: u32,
    /// As rxe.
    pub vendor_part_id: u32,
    /// As rxe.
    pub hw_ver: u32,
    /// What the device can do: flags of `enum ibv_device_cap_flags`.
    pub device_cap_flags: u32,
    /// `device_cap_flags` with the flags of the upper half of `device_cap_flags_ex`.
    pub device_cap_flags_ex: u64,
    /// `ibv_atomic_cap`: 2 (GLOB), atomic also with the CPU.
    pub atomic_cap: u32,
    /// READ and atomic requests of one QP, as responder.
    pub max_qp_rd_atom: u32,
    /// READ and atomic requests of one QP, as requester.
    pub max_qp_init_rd_atom: u32,
    /// READ and atomic requests of all QPs together.
    pub max_res_rd_atom: u64,
    /// Local ACK delay code: 4.096 us * 2^15, as rxe.
    pub local_ca_ack_delay: u8,
    /// Ports: one, numbered 1.
    pub phys_port_cnt: u8,
    /// P_Keys: one.
    pub max_pkeys: u16,
    /// Address handles; they are plain values here.
    pub max_ah: u32,
    /// Completion vectors: one for each engine.
    pub num_comp_vectors: u32,
    /// Number and size of objects.
    pub limits: DeviceLimits,
}

/// `IBV_DEVICE_*` bits: BAD_PKEY_CNTR 1<<1, BAD_QKEY_CNTR 1<<2, AUTO_PATH_MIG 1<<4,
/// CHANGE_PHY_PORT 1<<5, UD_AV_PORT_ENFORCE 1<<6, CURR_QP_STATE_MOD 1<<7, SHUTDOWN_PORT 1<<8,
/// PORT_ACTIVE_EVENT 1<<10, SYS_IMAGE_GUID 1<<11, RC_RNR_NAK_GEN 1<<12, SRQ_RESIZE 1<<13,
/// MEM_WINDOW 1<<17, XRC 1<<20, MEM_MGT_EXTENSIONS 1<<21, MEM_WINDOW_TYPE_2B 1<<24. Only those that are true
/// here are set.
const CAP_FLAGS: u32 = 1 << 1
    | 1 << 2
    | 1 << 7
    | 1 << 10
    | 1 << 11
    | 1 << 12
    | 1 << 13
    | 1 << 17
    | 1 << 20
    | 1 << 21
    | 1 << 24;

/// FLUSH_GLOBAL 1<<38 and ATOMIC_WRITE 1<<40. Not FLUSH_PERSISTENT (1<<39): nothing here outlives a power failure.
const CAP_FLAGS_EX: u64 = 1 << 38 | 1 << 40;

/// Those of memory windows, which a device with several engines does not have.
const WINDOW_FLAGS: u32 = 1 << 17 | 1 << 24;

/// Address handles that are promised. More can be made; programs reckon with the number in an `int`.
const MAX_AH: u32 = 1 << 20;

/// Speed shown when the driver does not tell one: 10 Gb/s.
const UNKNOWN_SPEED: u64 = 10_000_000_000;

/// Attributes of a device that is not open: a query must not take its port from a program that runs
/// on it.
impl Interface {
    /// EUI-64 identity of a device on this interface (`node_guid`).
    pub fn guid(&self) -> u64 {
        guid_of(self)
    }

    /// `ibv_query_device` of a device opened with these limits and so many engines.
    pub fn device_attr(&self, limits: DeviceLimits, engines: NonZeroU8) -> DeviceAttr {
        device_attr(self.guid(), limits, engines.get().into())
    }

    /// `ibv_query_port`; `None` if the link is too small for RoCE.
    pub fn port_attr(&self) -> Option<PortAttr> {
        Mtu::largest_for_link(self.mtu).map(|active_mtu| port_attr(self, active_mtu))
    }

    /// Bits per second that programs are told: 10 Gb/s if the driver does not tell.
    pub fn shown_bits_per_second(&self) -> u64 {
        self.bits_per_second.filter(|rate| *rate > 0).unwrap_or(UNKNOWN_SPEED)
    }

    /// `ibv_query_gid`: entries 0 and 1 are the address, RoCE v2; there are no others.
    pub fn gid(&self, index: u32) -> Option<Gid> {
        gid_at(self.address, index)
    }
}

pub(crate) fn device_attr(guid: u64, limits: DeviceLimits, engines: u32) -> DeviceAttr {
    let windows = engines == 1;
    let limits = DeviceLimits { max_mw: if windows { limits.max_mw } else { 0 }, ..limits };
    let depth = u32::from(limits.max_qp_rd_atom);
    let device_cap_flags = if windows { CAP_FLAGS } else { CAP_FLAGS & !WINDOW_FLAGS };
    DeviceAttr {
        fw_ver: env!("CARGO_PKG_VERSION"),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: u64::MAX,
        page_size_cap: 0xffff_f000,
        vendor_id: 0x00ff_ffff,
        vendor_part_id: 0,
        hw_ver: 0,
        device_cap_flags,
        device_cap_flags_ex: u64::from(device_cap_flags) | CAP_FLAGS_EX,
        atomic_cap: 2,
        max_qp_rd_atom: depth,
        max_qp_init_rd_atom: depth,
        max_res_rd_atom: u64::from(depth) * limits.max_qp as u64,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        max_pkeys: 1,
        max_ah: MAX_AH,
        num_comp_vectors: engines,
        limits,
    }
}

/// Looks at the netdev again for its state; a link that vanished is down. Where the system cannot be asked, it is as it was listed.
pub(crate) fn port_attr(interface: &Interface, active_mtu: Mtu) -> PortAttr {
    let up = if interface.is_of_process() { interface.up } else { is_up(interface) };
    let (active_width, active_speed) = width_and_speed(interface.shown_bits_per_second());
    PortAttr {
        state: if up { PortState::Active } else { PortState::Down },
        max_mtu: Mtu::M4096,
        active_mtu,
        gid_tbl_len: GID_TABLE_LEN,
        pkey_tbl_len: 1,
        max_msg_sz: 1 << 31,
        active_width,
        active_speed,
        link_layer: 2,
    }
}

fn is_up(interface: &Interface) -> bool {
    PortStatus::now(interface).map_or(interface.running, |status| status.up)
}

/// The smallest width and speed that reach the link's bit rate, as `ib_get_eth_speed` picks them.
fn width_and_speed(bits_per_second: u64) -> (u8, u16) {
    const SDR: u16 = 1;
    const QDR: u16 = 4;
    const EDR: u16 = 32;
    const HDR: u16 = 64;
    const NDR: u16 = 128;
    const XDR: u16 = 256;
    match bits_per_second / 1_000_000_000 {
        0..=1 => (1, SDR),
        2..=10 => (1, QDR),
        11..=20 => (2, SDR),
        21..=25 => (1, EDR),
        26..=40 => (2, QDR),
        41..=50 => (1, HDR),
        51..=100 => (2, EDR),
        101..=200 => (2, HDR),
        201..=400 => (2, NDR),
        _ => (2, XDR),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::interface::fabric_interface;

    #[test]
    fn speeds_as_the_kernel_shows_them() {
        assert_eq!(width_and_speed(1_000_000_000), (1, 1));
        assert_eq!(width_and_speed(10_000_000_000), (1, 4));
        assert_eq!(width_and_speed(25_000_000_000), (1, 32));
        assert_eq!(width_and_speed(40_000_000_000), (2, 4));
        assert_eq!(width_and_speed(100_000_000_000), (2, 32));
        assert_eq!(width_and_speed(50_000_000_000), (1, 64));
        assert_eq!(width_and_speed(200_000_000_000), (2, 64));
        assert_eq!(width_and_speed(400_000_000_000), (2, 128));
        assert_eq!(width_and_speed(800_000_000_000), (2, 256));
    }

    #[test]
    fn a_link_whose_driver_does_not_tell_has_10_gigabits() {
        let mut interface = fabric_interface(IpAddr::V4(Ipv4Addr::LOCALHOST), 1500);
        for (told, shown) in [(None, UNKNOWN_SPEED), (Some(0), UNKNOWN_SPEED), (Some(1), 1)] {
            interface.bits_per_second = told;
            assert_eq!(interface.shown_bits_per_second(), shown, "{told:?}");
        }
        interface.bits_per_second = None;
        let port = port_attr(&interface, Mtu::M1024);
        assert_eq!((port.active_width, port.active_speed), (1, 4));
    }

    #[test]
    fn a_vanished_netdev_is_down() {
        let mut interface = fabric_interface(IpAddr::V4(Ipv4Addr::LOCALHOST), 1500);
        assert_eq!(port_attr(&interface, Mtu::M1024).state, PortState::Active);
        interface.netdev = "gone-by-now".to_owned();
        assert_eq!(port_attr(&interface, Mtu::M1024).state, PortState::Down);
        interface.netdev = "lo".to_owned();
        assert_eq!(port_attr(&interface, Mtu::M1024).state, PortState::Active);
    }

    #[test]
    fn rxe_facts() {
        let attr = device_attr(7, DeviceLimits::default(), 1);
        assert_eq!((attr.vendor_id, attr.local_ca_ack_delay, attr.max_pkeys), (0xff_ffff, 15, 1));
        assert_eq!((attr.max_qp_rd_atom, attr.limits.max_sge), (128, 32));
    }

    #[test]
    fn v40_capabilities_are_told_as_they_are() {
        let attr = device_attr(7, DeviceLimits::default(), 1);
        assert_eq!(attr.device_cap_flags_ex >> 32, 1 << 6 | 1 << 8, "FLUSH_GLOBAL, ATOMIC_WRITE");
        assert_eq!(attr.device_cap_flags_ex as u32, attr.device_cap_flags);
        assert_eq!(attr.atomic_cap, 2);
        assert!(i32::try_from(attr.max_ah).is_ok_and(|count| count.checked_add(1).is_some()));
    }

    #[test]
    fn several_engines_show_as_completion_vectors_and_cost_the_windows() {
        let one = device_attr(7, DeviceLimits::default(), 1);
        let four = device_attr(7, DeviceLimits::default(), 4);
        assert_eq!((one.num_comp_vectors, four.num_comp_vectors), (1, 4));
        assert!(one.limits.max_mw > 0 && four.limits.max_mw == 0);
        assert_eq!(one.device_cap_flags ^ four.device_cap_flags, WINDOW_FLAGS);
    }
}
