//! Faults on the wire, made by netem inside the guest: in both directions, RoCE traffic only.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use uroce_testbed::error::{Error, Result};

use crate::guest::Guest;

/// What goes wrong on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// Nothing.
    None,
    /// 1 % of the packets are lost.
    Loss,
    /// 5 % of the packets are lost.
    HeavyLoss,
    /// 5 % of the packets arrive 1 ms late, behind later ones.
    Reorder,
    /// 1 % of the packets arrive twice.
    Duplicate,
    /// One bit is wrong in 0.5 % of the packets.
    Corrupt,
}

impl Fault {
    /// Every fault of the matrix, the harmless one first.
    pub const ALL: [Self; 5] =
        [Self::None, Self::Loss, Self::Reorder, Self::Duplicate, Self::Corrupt];

    /// The arguments of netem; `None` for a wire without faults.
    ///
    /// netem's `reorder P` lets P per cent of the packets overtake the delayed rest.
    pub fn netem(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Loss => Some("loss 1%"),
            Self::HeavyLoss => Some("loss 5%"),
            Self::Reorder => Some("delay 1ms reorder 95%"),
            Self::Duplicate => Some("duplicate 1%"),
            Self::Corrupt => Some("corrupt 0.5%"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "clean",
            Self::Loss => "loss",
            Self::HeavyLoss => "loss of 5 %",
            Self::Reorder => "reorder",
            Self::Duplicate => "duplicate",
            Self::Corrupt => "corrupt",
        })
    }
}

/// Takes away what an earlier call left.
const CLEAR: &str = "\
tc qdisc del dev eth0 root
tc qdisc del dev eth0 ingress
tc qdisc del dev ifb0 root
";

/// Sends what leaves for UDP port 4791 through class 1:2, and what arrives for it through `ifb0`.
const STEER: &str = "\
set -e
ip link set ifb0 mtu 9216 up
tc qdisc add dev eth0 root handle 1: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
tc qdisc add dev eth0 handle ffff: ingress
roce4='protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff'
roce6='protocol ipv6 u32 match ip6 protocol 17 0xff match ip6 dport 4791 0xffff'
tc filter add dev eth0 parent 1: prio 1 $roce4 flowid 1:2
tc filter add dev eth0 parent 1: prio 2 $roce6 flowid 1:2
tc filter add dev eth0 parent ffff: prio 1 $roce4 action mirred egress redirect dev ifb0
tc filter add dev eth0 parent ffff: prio 2 $roce6 action mirred egress redirect dev ifb0
";

impl Guest {
    /// Puts `fault` on RoCE traffic in both directions, instead of what was there.
    ///
    /// The TCP connection by which programs find each other stays clean.
    ///
    /// # Errors
    /// The guest's kernel refused (the sentence has the words of `tc`), or the guest died.
    pub fn netem(&self, fault: Fault) -> Result<()> {
        let limit = Duration::from_secs(30);
        self.run(CLEAR, limit)?;
        let Some(netem) = fault.netem() else { return Ok(()) };
        let script = format!(
            "{STEER}tc qdisc add dev eth0 parent 1:2 netem limit 10000 {netem}\n\
             tc qdisc add dev ifb0 root netem limit 10000 {netem}\n"
        );
        let output = self.run(&script, limit)?;
        if output.code == 0 {
            return Ok(());
        }
        Err(Error::new(format!("the guest could not set up {fault}: {}", output.text)))
    }
}
