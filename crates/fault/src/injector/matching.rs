//! Whether a packet is one that a rule is about.

use super::flows::Facts;
use crate::PacketMeta;
use crate::packet_view::PacketView;
use crate::rule::{Matcher, PsnMatch, QueuePairMatch};

/// True if the rule is about this packet. The cheap questions come first.
#[inline]
pub(super) fn matches(
    rule: &Matcher,
    meta: &PacketMeta,
    packet: &PacketView<'_>,
    facts: &Facts,
) -> bool {
    rule.operations.as_ref().is_none_or(|operations| operations.contains(packet))
        && matches_packet(rule, packet, facts)
        && matches_history(rule, facts)
        && matches_network(rule, meta)
}

fn matches_packet(rule: &Matcher, packet: &PacketView<'_>, facts: &Facts) -> bool {
    let in_range = |range: crate::rule::NumberRange, value: Option<u64>| {
        value.is_some_and(|value| range.contains(value))
    };
    rule.part.is_none_or(|part| packet.info().is_some_and(|info| info.position == part.0))
        && rule.queue_pair.is_none_or(|queue_pair| match queue_pair {
            QueuePairMatch::Number(number) => packet.dest_qp() == Some(number),
            QueuePairMatch::Index(index) => facts.index == Some(index),
        })
        && rule.psn.is_none_or(|psn| match psn {
            PsnMatch::Number(range) => in_range(range, packet.psn().map(|psn| psn.get().into())),
            PsnMatch::Offset(range) => in_range(range, facts.offset),
            PsnMatch::Every(period) => {
                facts.offset.is_some_and(|offset| (offset + 1).is_multiple_of(u64::from(period)))
            }
        })
        && rule.length.is_none_or(|range| range.contains(packet.payload_len() as u64))
        && rule.syndrome.is_none_or(|range| in_range(range, packet.syndrome().map(u64::from)))
}

fn matches_history(rule: &Matcher, facts: &Facts) -> bool {
    let holds = |range: Option<crate::rule::NumberRange>, value: u64| {
        // Counting begins with 1; 0 says that the number is not known.
        range.is_none_or(|range| value != 0 && range.contains(value))
    };
    holds(rule.iteration, facts.iteration.into())
        && holds(rule.message, facts.message.into())
        && holds(rule.packet, facts.packet)
}

fn matches_network(rule: &Matcher, meta: &PacketMeta) -> bool {
    let flow = &meta.flow;
    rule.either.is_none_or(|ip| ip.contains(flow.src) || ip.contains(flow.dst))
        && rule.source.is_none_or(|ip| ip.contains(flow.src))
        && rule.destination.is_none_or(|ip| ip.contains(flow.dst))
        && rule.ecn.is_none_or(|ecn| ecn.is_of(meta.traffic_class))
}
