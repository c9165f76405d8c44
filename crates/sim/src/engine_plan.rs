//! NICs with several engines.

use std::fmt;

use uroce_wire::Slot;

use crate::random::Random;
use crate::sim_packet::SimPacket;

/// By what the port of a NIC finds the engine for a packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortSteering {
    /// By the destination QPN, which names the engine.
    Qpns,
    /// By the source port, as the queues of an interface do: an engine hands over what is for another one.
    SourcePorts,
}

/// A NIC of ours with several engines, which share its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnginePlan {
    /// The node whose NIC it is.
    pub node: usize,
    /// How many there are.
    pub engines: usize,
    /// Which of them takes a packet in.
    pub steering: PortSteering,
}

impl EnginePlan {
    pub(crate) fn draw(node: usize, random: &mut Random) -> EnginePlan {
        let engines = random.pick(&[2, 4]);
        EnginePlan {
            node,
            engines,
            steering: random.pick(&[PortSteering::Qpns, PortSteering::SourcePorts]),
        }
    }

    /// The engine that takes a packet in.
    pub(crate) fn engine_for(&self, packet: &SimPacket) -> usize {
        match self.steering {
            PortSteering::Qpns => {
                // Engine `n` has slot `n + 1`; the first one takes what names none.
                let slot = packet.bytes.get(Slot::OFFSET).map_or(0, |slot| usize::from(*slot));
                slot.checked_sub(1).filter(|engine| *engine < self.engines).unwrap_or_default()
            }
            PortSteering::SourcePorts => usize::from(packet.route.src.port()) % self.engines,
        }
    }
}

impl fmt::Display for EnginePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EnginePlan { node, engines, steering } = self;
        let by = match steering {
            PortSteering::Qpns => "QPNs",
            PortSteering::SourcePorts => "source ports",
        };
        write!(f, "node {node} has {engines} engines, and its port steers by {by}")
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use uroce_datapath::Route;

    use super::*;

    fn packet(src_port: u16, bytes: &[u8]) -> SimPacket {
        let end = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let route = Route { src: end(src_port), dst: end(4791), hop_limit: 64, traffic_class: 0 };
        SimPacket { route, bytes: bytes.to_vec() }
    }

    #[test]
    fn a_port_steers_by_what_its_plan_says() {
        let plan = EnginePlan { node: 0, engines: 4, steering: PortSteering::Qpns };
        let to = |slot| packet(50_000, &[0, 0, 0, 0, 0, slot, 0, 1]);
        let engines = [0, 1, 4, 5, 255].map(|slot| plan.engine_for(&to(slot)));
        assert_eq!(engines, [0, 0, 3, 0, 0]);
        assert_eq!(plan.engine_for(&packet(50_000, &[0; 3])), 0, "it has no QPN");
        let plan = EnginePlan { steering: PortSteering::SourcePorts, ..plan };
        assert_eq!(plan.engine_for(&to(4)), 0);
        assert_eq!(plan.engine_for(&packet(50_003, &[])), 3);
    }
}
