//! Conditions for shell scripts that run in the guest.

/// A program listens on this TCP port.
pub fn tcp_listens(port: u16) -> String {
    format!("grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6")
}

/// A program listens on this port of rdma_cm.
pub fn cm_listens(port: u16) -> String {
    format!("rdma resource show cm_id | grep -q 'LISTEN.*:{port} '")
}
