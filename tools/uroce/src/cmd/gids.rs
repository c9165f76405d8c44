//! `uroce gids`: the columns of `show_gids`.

use std::net::IpAddr;

use serde_json::json;
use uroce_verbs::{DeviceInfo, Gid};

use crate::failure::Failure;
use crate::global::Global;
use crate::report::{json, out};

/// Every device has its address at these indices.
const INDICES: [u32; 2] = [0, 1];

/// Lists the GIDs.
///
/// # Errors
/// Exit 3 for a `-d` that does not exist.
pub fn run(global: &Global) -> Result<(), Failure> {
    let devices = match &global.ib_dev {
        Some(name) => vec![crate::nic::find(name)?],
        None => crate::nic::all()?,
    };
    let rows = devices.iter().flat_map(|device| INDICES.map(|index| (device, index)));
    if global.json {
        let gids: Vec<_> = rows.map(|(device, index)| as_json(device, index)).collect();
        json::print(&json!({ "version": json::VERSION, "gids": gids }));
        return Ok(());
    }
    out("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n");
    out("---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n");
    for (device, index) in rows {
        let gid = full(Gid::from_ip(device.address));
        out(&format!(
            "{}\t1\t{index}\t{gid}\t{:<14}\tv2\t{}\n",
            device.name,
            ipv4(device),
            device.netdev
        ));
    }
    out(&format!("n_gids_found={}\n", devices.len() * INDICES.len()));
    Ok(())
}

/// All eight groups of four digits, as sysfs shows a GID.
pub fn full(gid: Gid) -> String {
    let groups = gid.bytes().chunks_exact(2);
    let groups: Vec<_> = groups.map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    groups.join(":")
}

fn ipv4(device: &DeviceInfo) -> String {
    match device.address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(_) => String::new(),
    }
}

fn as_json(device: &DeviceInfo, index: u32) -> serde_json::Value {
    json!({
        "device": device.name,
        "port": 1,
        "index": index,
        "gid": full(Gid::from_ip(device.address)),
        "address": device.address.to_string(),
        "type": "RoCE v2",
        "netdev": device.netdev,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_as_sysfs_shows_it() {
        let gid = Gid::from_ip([10, 77, 0, 2].into());
        assert_eq!(full(gid), "0000:0000:0000:0000:0000:ffff:0a4d:0002");
    }
}
