//! What no simulation meets.

/// Reasons, each with what it explains.
pub(super) const REASONS: &[(&str, &[&str])] = &[
    (
        "the simulated datapath hands over whole UDP payloads to the NIC's one address, and sends all",
        &[
            "rx_truncated",
            "not_roce",
            "fragment",
            "ip_options",
            "queue_full",
            "tx_failed",
            "wrong_destination",
            "no_multicast_member",
        ],
    ),
    ("RD is no service of the NIC", &["IBV_WC_LOC_EEC_OP_ERR", "NAK: invalid RD request"]),
    (
        "messages of UC are told apart by their immediate data, so all have some",
        &["UC_SEND_LAST", "UC_SEND_ONLY"],
    ),
    (
        "type 2 windows serve the queue pair that binds them, and an initiator of XRC serves nobody",
        &["XRC_SEND_LAST_INV", "XRC_SEND_ONLY_INV"],
    ),
    ("no fault makes so many duplicates in a millisecond", &["reply_budget"]),
    (
        "applications post nothing that a queue pair cannot do, and queue pairs may have READs outstanding",
        &["IBV_WC_LOC_QP_OP_ERR"],
    ),
    ("the NIC raises it for nothing", &["IBV_WC_FATAL_ERR", "IBV_WC_GENERAL_ERR"]),
    (
        "who forges a peer's address does not know the PSNs that are outstanding",
        &["IBV_WC_BAD_RESP_ERR", "reserved_syndrome"],
    ),
    (
        "no host of a simulation calls so often: the limits are thousands of requests in a second",
        &["cm_rate_limit"],
    ),
];
