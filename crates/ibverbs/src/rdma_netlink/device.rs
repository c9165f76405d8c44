//! Devices and their port: `rdma dev`, `rdma link`, `rdma system`.

use libc::c_int;
use uroce_device::{DeviceLimits, Interface, PortState};

use super::attribute::{self as attr, Attributes};
use super::request::NldevRequest;
use crate::abi::{IBV_NODE_CA, IBV_PORT_ACTIVE, IBV_PORT_DOWN};
use crate::{gid, settings};

/// The only port of a device.
pub const PORT: u32 = 1;
/// `RDMA_LINK_PHYS_STATE_LINK_UP` and `_DISABLED`.
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;

/// A device with its place among those that the program sees.
pub type Numbered = (u32, Interface);

/// All devices, or the one that the request names; EINVAL, as the kernel, where that is none.
pub fn asked(request: &NldevRequest<'_>) -> Result<Vec<Numbered>, c_int> {
    let all = (0_u32..).zip(settings::devices());
    match request.number(attr::DEV_INDEX) {
        None if request.is_dump() => Ok(all.collect()),
        None => Err(libc::EINVAL),
        Some(index) => {
            let found: Vec<_> = all.filter(|(same, _)| *same == index).collect();
            if found.is_empty() { Err(libc::EINVAL) } else { Ok(found) }
        }
    }
}

/// The same for what is about a port.
pub fn asked_port(request: &NldevRequest<'_>) -> Result<Vec<Numbered>, c_int> {
    match request.number(attr::PORT_INDEX) {
        Some(PORT) => asked(request),
        None if request.is_dump() => asked(request),
        _ => Err(libc::EINVAL),
    }
}

/// By which each message tells what it is about.
pub fn handle((index, interface): &Numbered) -> Attributes {
    Attributes::default().word(attr::DEV_INDEX, *index).text(attr::DEV_NAME, &interface.name)
}

pub fn devices(request: &NldevRequest<'_>) -> Result<Vec<Attributes>, c_int> {
    Ok(asked(request)?.iter().map(about_device).collect())
}

fn about_device(device: &Numbered) -> Attributes {
    let about = device.1.device_attr(DeviceLimits::default(), settings::engines());
    handle(device)
        .word(attr::PORT_INDEX, about.phys_port_cnt.into())
        .long(attr::CAP_FLAGS, about.device_cap_flags_ex)
        .text(attr::FW_VERSION, about.fw_ver)
        .long(attr::NODE_GUID, about.node_guid)
        .long(attr::SYS_IMAGE_GUID, about.sys_image_guid)
        .byte(attr::DEV_NODE_TYPE, IBV_NODE_CA as u8)
        .byte(attr::DEV_DIM, 0)
        .text(attr::DEV_PROTOCOL, "roce")
}

pub fn ports(request: &NldevRequest<'_>) -> Result<Vec<Attributes>, c_int> {
    Ok(asked_port(request)?.iter().map(about_port).collect())
}

fn about_port(device: &Numbered) -> Attributes {
    let netdev = &device.1.netdev;
    let state = device.1.port_attr().map_or(PortState::Down, |port| port.state);
    let (state, phys_state) = match state {
        PortState::Active => (IBV_PORT_ACTIVE, PHYS_LINK_UP),
        PortState::Down => (IBV_PORT_DOWN, PHYS_DISABLED),
    };
    handle(device)
        .word(attr::PORT_INDEX, PORT)
        .byte(attr::PORT_STATE, state as u8)
        .byte(attr::PORT_PHYS_STATE, phys_state)
        .word(attr::NDEV_INDEX, gid::interface_index(netdev))
        .text(attr::NDEV_NAME, netdev)
}

/// Devices are those of a network namespace, and memory of a parent is whole after fork(2).
pub fn system() -> Attributes {
    Attributes::default().byte(attr::SYS_NETNS_MODE, 0).byte(attr::SYS_COPY_ON_FORK, 1)
}
