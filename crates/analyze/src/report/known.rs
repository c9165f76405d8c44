//! What only the end of a capture tells about a packet of it.

use std::collections::{HashMap, HashSet};

use uroce_wire::Qpn;

use super::Report;
use super::remark::is_trouble;
use super::seen::Seen;
use crate::judge::Severity;
use crate::track::FlowKey;
use crate::{Filter, Learned};

/// What a first reading of a whole capture told, for a second one: which queue pair sends each flow,
/// and which frames findings name. Without a first reading (standard input) it is empty, and packets
/// are judged by what came before them.
#[derive(Debug, Clone, Default)]
pub struct Known {
    source_qpns: HashMap<FlowKey, Qpn>,
    findings: HashMap<u64, Vec<&'static str>>,
    /// Frames that a finding names which is more than a note.
    troubled: HashSet<u64>,
}

impl Known {
    /// Titles of the findings that name the frame, if there are any.
    pub fn titles(&self, frame: u64) -> Option<&[&'static str]> {
        self.findings.get(&frame).map(Vec::as_slice)
    }

    /// What a filter has to know about the packet; `comment` is the one of its frame.
    pub fn learn(&self, seen: &Seen<'_>, comment: &str) -> Learned {
        let key = FlowKey::of(seen.packet);
        let source_qpn = seen.source_qpn().or_else(|| self.source_qpns.get(&key).copied());
        let is_named = self.troubled.contains(&seen.packet.frame);
        let is_error = is_named || is_trouble(seen.packet, seen.annotation, comment);
        Learned { source_qpn, is_error }
    }
}

impl From<&Report> for Known {
    fn from(report: &Report) -> Self {
        let mut known = Self::default();
        for flow in report.conversations.iter().flat_map(|row| &row.flows) {
            if let (Some(source), Some(to)) = (flow.source.qpn, flow.destination.qpn) {
                let (source_ip, destination) = (flow.source.address, flow.destination.address);
                let key = FlowKey { source: source_ip, destination, destination_qpn: Qpn::new(to) };
                known.source_qpns.insert(key, Qpn::new(source));
            }
        }
        for finding in &report.findings {
            for frame in &finding.frames {
                known.findings.entry(*frame).or_default().push(finding.title);
            }
            if finding.severity > Severity::Note {
                known.troubled.extend(&finding.frames);
            }
        }
        known
    }
}

impl Filter {
    /// What it asks for is fully known only at the end of a capture: which queue pair sends a flow, and what findings
    /// name.
    pub fn needs_whole_capture(&self) -> bool {
        !self.qpns().is_empty() || self.only_errors()
    }
}
