//! The structs and the constants, compared with the header of the system by a C program, and with what the headers of other
//! versions of rdma-core say.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use uroce_verbs_abi::*;

/// The headers; the second includes the first.
const HEADER: &str = "/usr/include/rdma/rdma_cma.h";

/// A place in a struct: its C name and where we have it.
struct Offset {
    c_struct: &'static str,
    c_field: String,
    ours: usize,
}

/// Offsets of fields that have the same name in both languages, or a C name after `=`.
macro_rules! offsets {
    ($($type:ident { $($($field:ident).+ $(= $c:literal)?),* $(,)? })*) => {
        vec![$($(Offset {
            c_struct: stringify!($type),
            c_field: [$($c,)? stringify!($($field).+)][0].replace(' ', ""),
            ours: std::mem::offset_of!($type, $($field).+),
        }),*),*]
    };
}

fn objects() -> Vec<Offset> {
    offsets! {
        ibv_device { node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        ibv_context_ops { alloc_mw, bind_mw, dealloc_mw, poll_cq, req_notify_cq, post_srq_recv,
            post_send, post_recv, compat_after = "_compat_create_ah" }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_mw { context, pd, rkey, handle, type_ = "type" }
        ibv_mw_bind_info { mr, addr, length, mw_access_flags }
        ibv_mw_bind { wr_id, send_flags, bind_info }
        ibv_ah { context, pd, handle }
        ibv_td { context }
        ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask, handle }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq { context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
            async_events_completed }
        ibv_srq { context, srq_context, pd, handle, mutex, cond, events_completed }
        ibv_qp { context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type,
            mutex, cond, events_completed }
        ibv_cq_ex { comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode,
            read_vendor_err, read_byte_len, read_imm_data, read_qp_num, read_src_qp,
            read_wc_flags, read_slid, read_sl, read_dlid_path_bits, read_completion_ts,
            read_cvlan, read_flow_tag, read_tm_info, read_completion_wallclock_ns }
    }
}

fn extended_queue_pair() -> Vec<Offset> {
    offsets! {
        ibv_qp_ex { qp_base, comp_mask, wr_id, wr_flags,
            ops.wr_atomic_cmp_swp = "wr_atomic_cmp_swp",
            ops.wr_atomic_fetch_add = "wr_atomic_fetch_add", ops.wr_bind_mw = "wr_bind_mw",
            ops.wr_local_inv = "wr_local_inv", ops.wr_rdma_read = "wr_rdma_read",
            ops.wr_rdma_write = "wr_rdma_write", ops.wr_rdma_write_imm = "wr_rdma_write_imm",
            ops.wr_send = "wr_send", ops.wr_send_imm = "wr_send_imm",
            ops.wr_send_inv = "wr_send_inv", ops.wr_send_tso = "wr_send_tso",
            ops.wr_set_ud_addr = "wr_set_ud_addr", ops.wr_set_xrc_srqn = "wr_set_xrc_srqn",
            ops.wr_set_inline_data = "wr_set_inline_data",
            ops.wr_set_inline_data_list = "wr_set_inline_data_list",
            ops.wr_set_sge = "wr_set_sge", ops.wr_set_sge_list = "wr_set_sge_list",
            ops.wr_start = "wr_start", ops.wr_complete = "wr_complete",
            ops.wr_abort = "wr_abort", ops.wr_atomic_write = "wr_atomic_write" }
    }
}

fn attributes() -> Vec<Offset> {
    offsets! {
        ibv_device_attr { fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id,
            vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd,
            max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
            max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw,
            max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach,
            max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr,
            max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt }
        ibv_device_attr_ex { orig_attr, comp_mask, odp_caps.general_caps,
            odp_caps.rc_odp_caps = "odp_caps.per_transport_caps.rc_odp_caps",
            odp_caps.ud_odp_caps = "odp_caps.per_transport_caps.ud_odp_caps",
            completion_timestamp_mask, hca_core_clock, device_cap_flags_ex, rest = "tso_caps",
            cq_mod_caps.max_cq_count, cq_mod_caps.max_cq_period,
            max_dm_size, pci_atomic_caps, xrc_odp_caps,
            phys_port_cnt_ex }
        ibv_modify_cq_attr { attr_mask, cq_count = "moderate.cq_count", cq_period = "moderate.cq_period" }
        ibv_values_ex { comp_mask, raw_clock }
        ibv_port_attr { state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz,
            bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl,
            subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer,
            flags, port_cap_flags2 }
        ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_grh { version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid }
        ibv_qp_attr { qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn,
            dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index,
            en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer,
            port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_qp_init_attr_ex { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all,
            comp_mask, pd, xrcd, create_flags, max_tso_header, rwq_ind_tbl, rx_hash_conf,
            source_qpn, send_ops_flags }
        ibv_srq_attr { max_wr, max_sge, srq_limit }
        ibv_srq_init_attr { srq_context, attr }
        ibv_srq_init_attr_ex { srq_context, attr, comp_mask, srq_type, pd, xrcd, cq, tm_cap }
        ibv_xrcd { context }
        ibv_xrcd_init_attr { comp_mask, fd, oflags }
        ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context, qp_type }
        ibv_cq_init_attr_ex { cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags,
            parent_domain }
        ibv_td_init_attr { comp_mask }
        ibv_parent_domain_init_attr { pd, td, comp_mask, alloc, free, pd_context }
        ibv_alloc_dm_attr { length, log_align_req, comp_mask }
        ibv_ece { vendor_id, options, comp_mask }
    }
}

fn work() -> Vec<Offset> {
    offsets! {
        ibv_sge { addr, length, lkey }
        ibv_data_buf { addr, length }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr,
            remote_srqn = "qp_type.xrc.remote_srqn", bind_mw.mw, bind_mw.rkey,
            bind_mw.bind_info }
        ibv_wc { wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags,
            pkey_index, slid, sl, dlid_path_bits }
        ibv_wc_tm_info { tag, priv_ = "priv" }
        ibv_async_event { element, event_type }
    }
}

fn connections() -> Vec<Offset> {
    offsets! {
        rdma_event_channel { fd }
        rdma_cm_id { verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel,
            send_cq, recv_cq_channel, recv_cq, srq, pd, qp_type }
        rdma_route { addr.src = "addr.src_storage", addr.dst = "addr.dst_storage",
            addr.sgid = "addr.addr.ibaddr.sgid", addr.dgid = "addr.addr.ibaddr.dgid",
            addr.pkey = "addr.addr.ibaddr.pkey", path_rec, num_paths }
        ibv_sa_path_rec { dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class,
            reversible, numb_path, pkey, sl, mtu_selector, mtu, rate_selector, rate,
            packet_life_time_selector, packet_life_time, preference }
        rdma_conn_param { private_data, private_data_len, responder_resources, initiator_depth,
            flow_control, retry_count, rnr_retry_count, srq, qp_num }
        rdma_ud_param { private_data, private_data_len, ah_attr, qp_num, qkey }
        rdma_cm_event { id, listen_id, event, status, param }
        rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr }
        rdma_addrinfo { ai_flags, ai_family, ai_qp_type, ai_port_space, ai_src_len, ai_dst_len,
            ai_src_addr, ai_dst_addr, ai_src_canonname, ai_dst_canonname, ai_route_len, ai_route,
            ai_connect_len, ai_connect, ai_next }
    }
}

/// Structs that every version of the header has in the same length.
const SIZES: &[(&str, usize)] = &[
    ("struct ibv_device", size_of::<ibv_device>()),
    ("struct ibv_context", size_of::<ibv_context>()),
    ("struct ibv_context_ops", size_of::<ibv_context_ops>()),
    ("struct ibv_pd", size_of::<ibv_pd>()),
    ("struct ibv_mr", size_of::<ibv_mr>()),
    ("struct ibv_mw", size_of::<ibv_mw>()),
    ("struct ibv_ah", size_of::<ibv_ah>()),
    ("struct ibv_comp_channel", size_of::<ibv_comp_channel>()),
    ("struct ibv_cq", size_of::<ibv_cq>()),
    ("struct ibv_cq_ex", size_of::<ibv_cq_ex>()),
    ("struct ibv_srq", size_of::<ibv_srq>()),
    ("struct ibv_qp", size_of::<ibv_qp>()),
    ("struct ibv_device_attr", size_of::<ibv_device_attr>()),
    ("struct ibv_device_attr_ex", size_of::<ibv_device_attr_ex>()),
    ("struct ibv_ah_attr", size_of::<ibv_ah_attr>()),
    ("struct ibv_qp_attr", size_of::<ibv_qp_attr>()),
    ("struct ibv_qp_init_attr", size_of::<ibv_qp_init_attr>()),
    ("struct ibv_qp_init_attr_ex", size_of::<ibv_qp_init_attr_ex>()),
    ("struct ibv_srq_init_attr", size_of::<ibv_srq_init_attr>()),
    ("struct ibv_srq_init_attr_ex", size_of::<ibv_srq_init_attr_ex>()),
    ("struct ibv_cq_init_attr_ex", size_of::<ibv_cq_init_attr_ex>()),
    ("struct ibv_xrcd_init_attr", size_of::<ibv_xrcd_init_attr>()),
    ("struct ibv_qp_open_attr", size_of::<ibv_qp_open_attr>()),
    ("union ibv_gid", size_of::<ibv_gid>()),
    ("struct ibv_gid_entry", size_of::<ibv_gid_entry>()),
    ("struct ibv_grh", size_of::<ibv_grh>()),
    ("struct ibv_sge", size_of::<ibv_sge>()),
    ("struct ibv_send_wr", size_of::<ibv_send_wr>()),
    ("struct ibv_recv_wr", size_of::<ibv_recv_wr>()),
    ("struct ibv_wc", size_of::<ibv_wc>()),
    ("struct ibv_mw_bind", size_of::<ibv_mw_bind>()),
    ("struct ibv_async_event", size_of::<ibv_async_event>()),
    ("struct rdma_cm_id", size_of::<rdma_cm_id>()),
    ("struct rdma_route", size_of::<rdma_route>()),
    ("struct ibv_sa_path_rec", size_of::<ibv_sa_path_rec>()),
    ("struct rdma_conn_param", size_of::<rdma_conn_param>()),
    ("struct rdma_ud_param", size_of::<rdma_ud_param>()),
    ("struct rdma_cm_event", size_of::<rdma_cm_event>()),
    ("struct rdma_cm_join_mc_attr_ex", size_of::<rdma_cm_join_mc_attr_ex>()),
    ("struct rdma_addrinfo", size_of::<rdma_addrinfo>()),
];

/// Slots before the context, by their distance from it: that is what does not change.
fn slots() -> Vec<(&'static str, usize)> {
    let whole = size_of::<verbs_slots>();
    macro_rules! distance {
        ($($slot:ident = $c:literal),*) => {
            vec![$(($c, whole - std::mem::offset_of!(verbs_slots, $slot))),*]
        };
    }
    distance! {
        query_port = "query_port", advise_mr = "advise_mr", counters = "read_counters",
        reg_dm_mr = "reg_dm_mr", alloc_dm = "alloc_dm",
        free_dm = "free_dm", alloc_td = "alloc_td",
        dealloc_td = "dealloc_td", flow_action = "modify_flow_action_esp", alloc_parent_domain = "alloc_parent_domain",
        modify_cq = "modify_cq", wq = "destroy_rwq_ind_table", create_cq_ex = "create_cq_ex",
        private = "priv", query_device_ex = "query_device_ex", create_flow = "ibv_create_flow",
        create_qp_ex = "create_qp_ex", create_srq_ex = "create_srq_ex",
        get_srq_num = "get_srq_num", open_qp = "open_qp",
        open_xrcd = "open_xrcd", close_xrcd = "close_xrcd", sz = "sz"
    }
}

/// Structs that are only in newer headers, or longer there, and their slots.
fn newer() -> Vec<Check> {
    let mut all = of_offsets(
        56,
        offsets! {
            ibv_qp_ex { ops.wr_flush = "wr_flush" }
            ibv_port_attr { active_speed_ex }
        },
    );
    let since_65 = offsets! {
        ibv_dmah { context }
        ibv_dmah_init_attr { comp_mask, cpu_id, ph, tph_mem_type }
        ibv_comp_cntr { context, handle }
        ibv_comp_cntr_init_attr { comp_mask, r#type = "type", flags }
        ibv_comp_cntr_caps { max_value, max_counters, supported_qp_attach_ops }
        ibv_qp_attach_comp_cntr_attr { comp_mask, op_mask }
        ibv_mr_init_attr { length, access, comp_mask, iova, addr, fd, fd_offset, dmah, buf }
    };
    all.extend(of_offsets(65, since_65));
    let sizes = [
        (56, "struct ibv_qp_ex", size_of::<ibv_qp_ex>()),
        (56, "struct ibv_port_attr", size_of::<ibv_port_attr>()),
        (65, "struct ibv_dmah", size_of::<ibv_dmah>()),
        (65, "struct ibv_dmah_init_attr", size_of::<ibv_dmah_init_attr>()),
        (65, "struct ibv_mr_init_attr", size_of::<ibv_mr_init_attr>()),
        (65, "struct ibv_comp_cntr", size_of::<ibv_comp_cntr>()),
        (65, "struct ibv_comp_cntr_init_attr", size_of::<ibv_comp_cntr_init_attr>()),
        (65, "struct ibv_comp_cntr_caps", size_of::<ibv_comp_cntr_caps>()),
        (65, "struct ibv_qp_attach_comp_cntr_attr", size_of::<ibv_qp_attach_comp_cntr_attr>()),
        (65, "struct verbs_context", size_of::<verbs_context>()),
    ];
    all.extend(sizes.map(|(since, c_type, ours)| of_size(since, c_type, ours)));
    let whole = size_of::<verbs_slots>();
    macro_rules! distances {
        ($($slot:ident),*) => {[$((stringify!($slot), whole - std::mem::offset_of!(verbs_slots, $slot))),*]};
    }
    let slots =
        distances![alloc_dmah, dealloc_dmah, reg_mr_ex, dm_export_dmabuf_fd, alloc_buf, free_buf];
    all.extend(slots.map(|(slot, ours)| of_slot(65, slot, ours)));
    for (since, list) in [
        (56, VERBS_CONSTANTS_SINCE_56),
        (65, VERBS_CONSTANTS_SINCE_65),
        (65, RDMACM_CONSTANTS_SINCE_65),
    ] {
        all.extend(list.iter().map(|(name, ours)| of_constant(since, name, *ours)));
    }
    all
}

/// A number that a header has, too.
struct Check {
    /// Its name in the tables of facts.
    what: String,
    /// The expression in C.
    c: String,
    ours: i64,
    /// The first of the headers below that has it.
    since: u32,
}

fn of_offsets(since: u32, offsets: Vec<Offset>) -> Vec<Check> {
    let check = |Offset { c_struct, c_field, ours }| Check {
        what: format!("{c_struct}.{c_field}"),
        c: format!("offsetof(struct {c_struct}, {c_field})"),
        ours: ours as i64,
        since,
    };
    offsets.into_iter().map(check).collect()
}

fn of_size(since: u32, c_type: &str, ours: usize) -> Check {
    Check {
        what: c_type.replace(' ', "_"),
        c: format!("sizeof({c_type})"),
        ours: ours as i64,
        since,
    }
}

/// Slots are counted from the context, which they lie before.
fn of_slot(since: u32, slot: &str, ours: usize) -> Check {
    let c =
        format!("offsetof(struct verbs_context, context) - offsetof(struct verbs_context, {slot})");
    Check { what: format!("verbs_context.{slot}"), c, ours: ours as i64, since }
}

fn of_constant(since: u32, name: &str, ours: i64) -> Check {
    Check { what: name.to_owned(), c: name.to_owned(), ours, since }
}

/// Everything that is compared with a header of this version.
fn checks(version: u32) -> Vec<Check> {
    let old = [objects(), extended_queue_pair(), attributes(), work(), connections()];
    let mut all = of_offsets(44, old.into_iter().flatten().collect());
    all.extend(SIZES.iter().map(|(c_type, ours)| of_size(44, c_type, *ours)));
    all.extend(slots().into_iter().map(|(slot, ours)| of_slot(44, slot, ours)));
    let constants = [VERBS_CONSTANTS, RDMACM_CONSTANTS].concat();
    all.extend(constants.into_iter().map(|(name, ours)| of_constant(44, name, ours)));
    all.extend(newer());
    all.retain(|check| check.since <= version);
    all
}

/// Which of the versions below this header is of, or the last one before it.
fn version_of(header: &str) -> u32 {
    match header {
        text if text.contains("ibv_alloc_buf") => 65,
        text if text.contains("active_speed_ex") => 56,
        _ => 44,
    }
}

/// A line for each check: its name and the number in the headers below `include`.
fn facts_of(include: &Path) -> (u32, String) {
    let header = std::fs::read_to_string(include.join("infiniband/verbs.h")).expect("a header");
    let version = version_of(&header);
    let mut c = "#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n\
                 #include <rdma/rsocket.h>\nint main(void) {\n"
        .to_owned();
    for Check { what, c: expression, .. } in checks(version) {
        writeln!(c, "printf(\"%s %lld\\n\", \"{what}\", (long long)({expression}));")
            .expect("a string grows");
    }
    c += "return 0; }\n";
    let thread = std::thread::current().id();
    let folder =
        std::env::temp_dir().join(format!("uroce-layout-{}-{thread:?}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the program");
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, c).expect("the source is written");
    let compiled =
        Command::new("cc").arg("-I").arg(include).arg("-o").args([&binary, &source]).output();
    let compiled = compiled.expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let outcome = Command::new(&binary).output().expect("the program starts");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    (version, String::from_utf8(outcome.stdout).expect("names and numbers"))
}

/// Each number that is not ours.
fn differences(version: u32, facts: &str) -> Vec<String> {
    let number = |line: &str| {
        let (what, number) = line.split_once(' ')?;
        Some((what.to_owned(), number.parse::<i64>().ok()?))
    };
    let theirs: BTreeMap<String, i64> = facts.lines().filter_map(number).collect();
    let differs = |check: &Check| theirs.get(&check.what) != Some(&check.ours);
    let wrong = checks(version).into_iter().filter(differs);
    wrong
        .map(|Check { what, ours, .. }| {
            format!("{what}: header {:?}, here {ours}", theirs.get(&what))
        })
        .collect()
}

/// Compares with the headers that this machine has.
#[test]
fn every_struct_and_constant_is_as_the_header_of_the_system_says() {
    if !Path::new(HEADER).exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must have {HEADER} (libibverbs-dev, librdmacm-dev)"
        );
        println!("skipped: no {HEADER}; install librdmacm-dev");
        return;
    }
    let (version, facts) = facts_of(Path::new("/usr/include"));
    assert_eq!(differences(version, &facts), [] as [String; 0]);
}

/// The numbers of headers that this machine does not have, taken on x86-64. `UROCE_UPDATE=1` with the folder of unpacked
/// headers in `UROCE_HEADERS` writes the table of their version.
#[test]
#[cfg(target_arch = "x86_64")]
fn every_struct_and_constant_is_as_the_headers_of_44_56_and_65_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/headers");
    let file = |version: u32| folder.join(format!("{version}.txt"));
    let headers = std::env::var_os("UROCE_HEADERS").map(std::path::PathBuf::from);
    if let Some(include) = headers.filter(|_| std::env::var_os("UROCE_UPDATE").is_some()) {
        let (version, facts) = facts_of(&include);
        std::fs::write(file(version), facts).expect("the table is written");
    }
    for version in [44, 56, 65] {
        let facts = std::fs::read_to_string(file(version)).expect("the table is there");
        assert_eq!(differences(version, &facts), [] as [String; 0], "rdma-core {version}");
    }
}
