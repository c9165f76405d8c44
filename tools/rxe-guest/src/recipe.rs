//! What the guest is made of, as data.

/// The package whose dependency is the newest kernel image.
pub const KERNEL_META_PACKAGE: &str = "linux-image-amd64";

/// Programs copied into the guest together with the libraries that `ldd` lists.
pub const PROGRAMS: &[&str] = &[
    "ip",
    "tc",
    "rdma",
    "ethtool",
    "tcpdump",
    "ibv_devices",
    "ibv_devinfo",
    "ibv_rc_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong",
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
    "cmtime",
    "rping",
    "ucmatose",
    "udaddy",
    "mckey",
    "rdma_server",
    "rdma_client",
    "rstream",
    "riostream",
];

/// Files that no program's `ldd` lists: loaded at run time by name.
///
/// `libgcc_s` is opened by `pthread_exit`; without it `rping` and `ib_*` abort.
pub const EXTRA_FILES: &[&str] =
    &["/lib/x86_64-linux-gnu/libgcc_s.so.1", "/etc/libibverbs.d/rxe.driver"];

/// Folder and file name prefix of the user-space part of rxe.
pub const PROVIDER: (&str, &str) = ("/usr/lib/x86_64-linux-gnu/libibverbs", "librxe");

/// Kernel modules in the order of need; their dependencies are added before each.
///
/// rxe asks the crypto layer for "crc32" and cannot add a link without it. The queueing modules
/// are for faults in both directions: netem on the card, and netem on `ifb0` for what arrives.
pub const MODULES: &[&str] = &[
    "crc32_generic",
    "crc32_pclmul",
    "virtio_pci",
    "virtio_net",
    "virtio_rng",
    "9pnet_virtio",
    "9p",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "sch_netem",
    "sch_prio",
    "sch_ingress",
    "cls_u32",
    "act_mirred",
    "ifb",
    "veth",
];

/// Modules that later kernels do without: there the crypto layer's CRC-32 is part of the kernel itself.
pub const MODULES_OF_OLD_KERNELS: &[&str] = &["crc32_generic", "crc32_pclmul", "crc32c_generic"];

/// First program of the guest.
pub const INIT: &str = include_str!("../guest/init");

/// The guest's command loop.
pub const AGENT: &str = include_str!("../guest/agent");
