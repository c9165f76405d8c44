//! A link between two namespaces.

use super::Namespace;

/// Two namespaces and a veth pair: `wa` with the addresses 10.77.0.1 and fd77::1, `wb` with 10.77.0.2,
/// 10.77.0.3, fd77::2 and fd77::3.
pub struct Wire {
    /// The namespace of `wa`.
    pub a: Namespace,
    /// The namespace of `wb`.
    pub b: Namespace,
}

impl Wire {
    /// A wire of that MTU whose ends know each other's hardware addresses; `None`, with a word about
    /// it, when this process may not make namespaces.
    pub fn new(mtu: usize) -> Option<Self> {
        Self::with_queues(mtu, 1)
    }

    /// The same with so many queues at each end, which are used each way.
    pub fn with_queues(mtu: usize, queues: usize) -> Option<Self> {
        let wire = Self::link(mtu, queues)?;
        for ip in ["10.77.0.2", "10.77.0.3", "fd77::2", "fd77::3"] {
            wire.a.sh(&format!("ip neigh add {ip} lladdr 02:00:00:00:00:0b dev wa nud permanent"));
        }
        for ip in ["10.77.0.1", "fd77::1"] {
            wire.b.sh(&format!("ip neigh add {ip} lladdr 02:00:00:00:00:0a dev wb nud permanent"));
        }
        Some(wire)
    }

    /// A wire whose ends have to find each other first.
    pub fn without_neighbours(mtu: usize) -> Option<Self> {
        Self::link(mtu, 1)
    }

    fn link(mtu: usize, queues: usize) -> Option<Self> {
        let (a, b) = (Namespace::open()?, Namespace::open()?);
        let each = format!("mtu {mtu} numrxqueues {queues} numtxqueues {queues}");
        a.sh(&format!(
            "ip link add wa {each} address 02:00:00:00:00:0a type veth \
             peer name wb {each} address 02:00:00:00:00:0b netns {}",
            b.tid
        ));
        let ours = [(&a, "wa", &["1"][..]), (&b, "wb", &["2", "3"][..])];
        for (namespace, interface, _) in ours {
            namespace.sh(&format!("ip link set {interface} up"));
        }
        for (namespace, interface, hosts) in ours {
            namespace.wait_for(&format!("ip -o link show {interface}"), "state UP");
            for host in hosts {
                namespace.sh(&format!("ip addr add 10.77.0.{host}/24 dev {interface}"));
                namespace.sh(&format!("ip addr add fd77::{host}/64 dev {interface} nodad"));
                let local = format!("local fd77::{host} ");
                namespace.wait_for("ip -6 route show table local", &local);
            }
        }
        Some(Self { a, b })
    }
}
