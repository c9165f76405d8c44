//! The flows of a tracker, found by key and by address.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::flow::{Flow, FlowKey};
use super::flow_id::FlowId;

/// Flows that are found without hashing.
const RECENT: usize = 64;

/// A bounded table of flows.
#[derive(Debug)]
pub(super) struct Flows {
    list: Vec<Flow>,
    by_key: HashMap<FlowKey, FlowId>,
    /// All flows, by source and destination.
    by_addresses: HashMap<(IpAddr, IpAddr), Vec<FlowId>>,
    /// Source and destination of flows that had a packet with a right ICRC.
    right_icrc: HashSet<(IpAddr, IpAddr)>,
    /// Flows of packets before, each at a place that its queue pair number gives: the next packet is
    /// often of one of them.
    recent: [Option<(FlowKey, FlowId)>; RECENT],
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            by_key: HashMap::new(),
            by_addresses: HashMap::new(),
            right_icrc: HashSet::new(),
            recent: [None; RECENT],
        }
    }
}

impl Flows {
    pub(super) fn list(&self) -> &[Flow] {
        &self.list
    }

    pub(super) fn get(&self, id: FlowId) -> Option<&Flow> {
        self.list.get(id.0 as usize)
    }

    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.list.get_mut(id.0 as usize)
    }

    /// The flow with `key`, if it was seen.
    pub(super) fn find(&mut self, key: &FlowKey) -> Option<FlowId> {
        let qpn = key.destination_qpn.get() as usize;
        let place = &mut self.recent[(qpn ^ qpn >> 8) % RECENT];
        if let Some((recent, id)) = place
            && recent == key
        {
            return Some(*id);
        }
        let id = *self.by_key.get(key)?;
        *place = Some((*key, id));
        Some(id)
    }

    /// A new flow; `None` if there are `max` of them.
    pub(super) fn add(&mut self, key: FlowKey, max: usize, slowest: usize) -> Option<FlowId> {
        if self.list.len() >= max {
            return None;
        }
        let id = FlowId(u32::try_from(self.list.len()).ok()?);
        self.list.push(Flow::new(id, key, slowest));
        self.by_key.insert(key, id);
        self.by_addresses.entry((key.source, key.destination)).or_default().push(id);
        Some(id)
    }

    /// Flows between the same addresses in the other direction of `key`, with a peer or without.
    pub(super) fn against(&self, key: &FlowKey) -> &[FlowId] {
        self.by_addresses.get(&(key.destination, key.source)).map_or(&[], Vec::as_slice)
    }

    /// A packet from `source` to `destination` had a right ICRC.
    pub(super) fn note_right_icrc(&mut self, source: IpAddr, destination: IpAddr) {
        self.right_icrc.insert((source, destination));
    }

    /// Some packet from `source` to `destination` had a right ICRC.
    pub(super) fn has_right_icrc(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.right_icrc.contains(&(source, destination))
    }
}
