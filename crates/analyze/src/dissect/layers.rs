//! Where the headers below the transport are, for display.

use std::iter::StepBy;
use std::ops::Range;

use uroce_wire::ROCE_V1_ETHERTYPE;

use super::link::{LRH, Link, Next, VLAN};
use super::network::{Fragment, Network};
use crate::LinkType;

const UDP: u8 = 17;

/// Places of headers in a frame.
#[derive(Debug, Clone)]
pub(crate) struct LinkLayer {
    /// VLAN tags.
    pub(crate) tags: StepBy<Range<usize>>,
    /// A local route header.
    pub(crate) lrh: Option<usize>,
    /// What follows the link layer.
    pub(crate) network: usize,
    /// It is IPv4 or IPv6.
    pub(crate) is_ip: bool,
    /// It is a GRH.
    pub(crate) is_grh: bool,
    /// A UDP header.
    pub(crate) udp: Option<usize>,
}

/// The headers of a frame, of which `data` was captured; `None` if its link layer is not known or cut off.
pub(crate) fn link_layer(link_type: LinkType, data: &[u8], original_len: u32) -> Option<LinkLayer> {
    let link = Link::read(link_type, data)?;
    let is_ip = matches!(link.next, Next::Ip | Next::Ethertype(0x0800 | 0x86dd));
    let lrh = (link.next == Next::Lrh).then_some(link.at);
    let has_grh = lrh.and_then(|at| data.get(at + 1)).is_some_and(|byte| byte & 3 == 3);
    let ip = Network::ip(data, link.at, original_len as usize).filter(|_| is_ip);
    let udp = ip.filter(|ip| ip.protocol == UDP && ip.fragment != Fragment::Later);
    Some(LinkLayer {
        tags: (link.tags..link.at).step_by(VLAN),
        lrh,
        network: if lrh.is_some() { link.at + LRH } else { link.at },
        is_ip,
        is_grh: has_grh || link.next == Next::Ethertype(ROCE_V1_ETHERTYPE),
        udp: udp.map(|ip| ip.header_end),
    })
}
