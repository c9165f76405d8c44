//! `uroce devinfo`: the lines of `ibv_devinfo`.

use clap::Args;
use serde_json::json;
use uroce_verbs::{Context, DeviceAttr, Mtu, PortAttr, PortState};

use crate::failure::Failure;
use crate::global::Global;
use crate::nic;
use crate::report::{json, out};

/// Arguments of `uroce devinfo`.
#[derive(Debug, Args)]
pub struct DevinfoArgs {
    /// Everything
    #[arg(short, long)]
    verbose: bool,
    /// Only the names
    #[arg(short, long)]
    list: bool,
}

/// Describes one device, or all.
///
/// # Errors
/// Exit 3 for a device that does not exist or cannot be opened.
pub fn run(args: &DevinfoArgs, global: &Global) -> Result<(), Failure> {
    let devices = match (&global.ib_dev, global.address) {
        (Some(name), _) => vec![nic::find(name)?],
        (None, Some(address)) => vec![nic::find(&address.to_string())?],
        (None, None) => nic::all()?,
    };
    if args.list && global.json {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        json::print(&json!({ "version": json::VERSION, "devices": names }));
        return Ok(());
    }
    if args.list {
        out(&format!("{} HCA(s) found:\n", devices.len()));
        devices.iter().for_each(|device| out(&format!("\t{}\n", device.name)));
        return Ok(());
    }
    let opened: Result<Vec<_>, _> =
        devices.iter().map(|device| nic::inspect_on(device, global)).collect();
    let opened = opened?;
    if global.json {
        let devices: Vec<_> = opened.iter().map(as_json).collect();
        json::print(&json!({ "version": json::VERSION, "devices": devices }));
        return Ok(());
    }
    for context in &opened {
        out(&describe(context, args.verbose));
    }
    Ok(())
}

fn guid(guid: u64) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (guid >> shift) as u16);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

fn describe(context: &Context, verbose: bool) -> String {
    let attr = context.query_device();
    let mut lines = vec![
        ("transport", "InfiniBand (0)".to_owned()),
        ("fw_ver", attr.fw_ver.to_owned()),
        ("node_guid", guid(attr.node_guid)),
        ("sys_image_guid", guid(attr.sys_image_guid)),
        ("vendor_id", format!("0x{:04x}", attr.vendor_id)),
        ("vendor_part_id", attr.vendor_part_id.to_string()),
        ("hw_ver", format!("0x{:X}", attr.hw_ver)),
        ("phys_port_cnt", attr.phys_port_cnt.to_string()),
    ];
    if verbose {
        lines.extend(limits(&attr));
        lines.push(("datapath", context.datapath_caps().name.to_owned()));
        lines.push(("datapath_choice", context.datapath_choice_note().to_owned()));
    }
    let mut text = format!("hca_id:\t{}\n", context.name());
    for (name, value) in lines {
        text += &format!("\t{:<32}{value}\n", format!("{name}:"));
    }
    text += "\t\tport:\t1\n";
    for (name, value) in port(&context.query_port(), verbose) {
        text += &format!("\t\t\t{:<24}{value}\n", format!("{name}:"));
    }
    if verbose {
        text += &gids(context);
    }
    text + "\n"
}

fn limits(attr: &DeviceAttr) -> Vec<(&'static str, String)> {
    let limits = &attr.limits;
    vec![
        ("max_mr_size", format!("{:#x}", attr.max_mr_size)),
        ("page_size_cap", format!("{:#x}", attr.page_size_cap)),
        ("max_qp", limits.max_qp.to_string()),
        ("max_qp_wr", limits.max_qp_wr.to_string()),
        ("device_cap_flags", format!("{:#x}", attr.device_cap_flags_ex)),
        ("max_sge", limits.max_sge.to_string()),
        ("max_inline_data", limits.max_inline.to_string()),
        ("max_cq", limits.max_cq.to_string()),
        ("max_cqe", limits.max_cqe.to_string()),
        ("max_mr", limits.max_mr.to_string()),
        ("max_pd", limits.max_pd.to_string()),
        ("max_qp_rd_atom", attr.max_qp_rd_atom.to_string()),
        ("max_res_rd_atom", attr.max_res_rd_atom.to_string()),
        ("max_qp_init_rd_atom", attr.max_qp_init_rd_atom.to_string()),
        ("atomic_cap", format!("ATOMIC_GLOB ({})", attr.atomic_cap)),
        ("max_mw", limits.max_mw.to_string()),
        ("max_mcast_grp", limits.max_mcast_grp.to_string()),
        ("max_mcast_qp_attach", limits.max_mcast_qp_attach.to_string()),
        ("max_ah", attr.max_ah.to_string()),
        ("max_srq", limits.max_srq.to_string()),
        ("max_srq_wr", limits.max_srq_wr.to_string()),
        ("max_srq_sge", limits.max_srq_sge.to_string()),
        ("max_pkeys", attr.max_pkeys.to_string()),
        ("local_ca_ack_delay", attr.local_ca_ack_delay.to_string()),
        ("num_comp_vectors", attr.num_comp_vectors.to_string()),
    ]
}

fn state(attr: &PortAttr) -> &'static str {
    match attr.state {
        PortState::Active => "PORT_ACTIVE (4)",
        PortState::Down => "PORT_DOWN (1)",
    }
}

fn port(attr: &PortAttr, verbose: bool) -> Vec<(&'static str, String)> {
    let mtu = |mtu: Mtu| format!("{} ({})", mtu.bytes(), mtu.code());
    let mut lines = vec![
        ("state", state(attr).to_owned()),
        ("max_mtu", mtu(attr.max_mtu)),
        ("active_mtu", mtu(attr.active_mtu)),
        ("sm_lid", "0".to_owned()),
        ("port_lid", "0".to_owned()),
        ("port_lmc", "0x00".to_owned()),
        ("link_layer", "Ethernet".to_owned()),
    ];
    if verbose {
        lines.push(("max_msg_sz", format!("{:#x}", attr.max_msg_sz)));
        lines.push(("pkey_tbl_len", attr.pkey_tbl_len.to_string()));
        lines.push(("gid_tbl_len", attr.gid_tbl_len.to_string()));
        lines.push(("active_width", format!("({})", attr.active_width)));
        lines.push(("active_speed", format!("({})", attr.active_speed)));
    }
    lines
}

fn gids(context: &Context) -> String {
    let rows = (0..).map_while(|index| context.query_gid(index).map(|gid| (index, gid)));
    rows.map(|(index, gid)| format!("\t\t\tGID[{index:3}]:\t\t{gid}, RoCE v2\n")).collect()
}

fn as_json(context: &Context) -> serde_json::Value {
    let (attr, port) = (context.query_device(), context.query_port());
    json!({
        "hca_id": context.name(),
        "fw_ver": attr.fw_ver,
        "node_guid": guid(attr.node_guid),
        "netdev": context.netdev(),
        "address": context.address().to_string(),
        "state": state(&port),
        "max_mtu": port.max_mtu.bytes(),
        "active_mtu": port.active_mtu.bytes(),
        "datapath": context.datapath_caps().name,
        "datapath_choice": [context.datapath_choice_note()],
        "limits": json::object(limits(&attr)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_as_ibv_devinfo_shows_it() {
        assert_eq!(guid(0x0200_00ff_fe00_0001), "0200:00ff:fe00:0001");
    }
}
