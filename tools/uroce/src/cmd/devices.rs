//! `uroce devices`: the columns of `ibv_devices`, and what else helps to choose.

use std::net::IpAddr;

use serde_json::json;
use uroce_device::interface_of;
use uroce_service::{serves, socket_path, status};
use uroce_verbs::{DatapathChoice, DeviceInfo};

use crate::failure::Failure;
use crate::global::Global;
use crate::nic;
use crate::report::{json, out};

/// Lists the devices, and what a service serves of 127.0.0.0/8.
///
/// # Errors
/// Exit 3 when there are none.
pub fn run(global: &Global) -> Result<(), Failure> {
    let mut devices = nic::all()?;
    devices.extend(served_beyond(&devices, global));
    if global.json {
        let devices: Vec<_> = devices.iter().map(|device| as_json(device, global)).collect();
        json::print(&json!({ "version": json::VERSION, "devices": devices }));
        return Ok(());
    }
    out("    device          \t   node GUID    \tnetdev          \taddress\n");
    out("    ------          \t----------------\t------          \t-------\n");
    for device in &devices {
        out(&format!(
            "    {:<16}\t{:016x}\t{:<16}\t{}{}\n",
            device.name,
            guid(device),
            device.netdev,
            device.address,
            served(device, global)
                .map_or_else(String::new, |inner| format!(" (served by {inner})"))
        ));
    }
    Ok(())
}

/// 0 for a device that cannot be opened now; opening it for real will say why.
fn guid(device: &DeviceInfo) -> u64 {
    nic::inspect(device, DatapathChoice::Udp).map_or(0, |context| context.guid())
}

/// The datapath of the service that holds the port of the device for all users, if one does.
fn served(device: &DeviceInfo, global: &Global) -> Option<&'static str> {
    serves(&socket_path(), (device.address, global.roce_port()).into())
}

/// Devices on addresses that a service has and no interface lists: all but the first of 127.0.0.0/8.
fn served_beyond(listed: &[DeviceInfo], global: &Global) -> Vec<DeviceInfo> {
    let all = status(&socket_path()).unwrap_or_default();
    let here = all.iter().map(|it| it.local).filter(|it| it.port() == global.roce_port());
    let is_new = |address: &IpAddr| listed.iter().all(|device| device.address != *address);
    let devices = here.map(|it| it.ip()).filter(is_new).filter_map(interface_of);
    devices.filter(|device| served(device, global).is_some()).collect()
}

fn as_json(device: &DeviceInfo, global: &Global) -> serde_json::Value {
    json!({
        "name": device.name,
        "node_guid": format!("{:016x}", guid(device)),
        "netdev": device.netdev,
        "address": device.address.to_string(),
        "mtu": device.mtu,
        "up": device.up,
        "served": served(device, global),
    })
}
