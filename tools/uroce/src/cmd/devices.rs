//! `uroce devices`: the columns of `ibv_devices`, and what else helps to choose.

use serde_json::json;
use uroce_service::{serves, socket_path};
use uroce_verbs::{DatapathChoice, DeviceInfo};

use crate::failure::Failure;
use crate::global::Global;
use crate::nic;
use crate::report::{json, out};

/// Lists the devices.
///
/// # Errors
/// Exit 3 when there are none.
pub fn run(global: &Global) -> Result<(), Failure> {
    let devices = nic::all()?;
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
