//! What both sides say about a connection.

/// Parameters of a connection (`rdma_conn_param`), for [`CmId::connect`](crate::CmId::connect) and
/// [`CmId::accept`](crate::CmId::accept).
///
/// ```
/// use uroce_verbs::ConnParam;
/// let param = ConnParam { private_data: b"hello".to_vec(), ..ConnParam::default() };
/// assert_eq!(param.retry_count, 7);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnParam {
    /// For the application at the other end: up to 56 bytes from `connect`, 196 from `accept`. The
    /// receiver sees as many bytes, filled up with zeros, and not how many were given. Default: none.
    pub private_data: Vec<u8>,
    /// READ and atomic requests of the peer that this side serves at a time. Default: 16.
    pub responder_resources: u8,
    /// READ and atomic requests of this side that may be in flight. The peer's limit holds if it is
    /// smaller. Default: 16.
    pub initiator_depth: u8,
    /// Retries after a timeout, 0 to 7; the value of the active side (`connect`) holds for both. Default: 7.
    pub retry_count: u8,
    /// Retries that the peer shall make after "receiver not ready", 0 to 6; 7 for ever. Default: 7.
    pub rnr_retry_count: u8,
    /// ToS or traffic class of the connection: DSCP in the upper 6 bits. Only that of the active side (`connect`)
    /// counts. Default: 0.
    pub traffic_class: u8,
}

impl Default for ConnParam {
    fn default() -> Self {
        ConnParam {
            private_data: Vec::new(),
            responder_resources: 16,
            initiator_depth: 16,
            retry_count: 7,
            rnr_retry_count: 7,
            traffic_class: 0,
        }
    }
}
