//! What the application of the responder must have set up, as far as the recording tells.

use std::collections::{BTreeMap, HashSet};

use uroce_memory::Access;
use uroce_wire::{Mtu, NakCode, Operation, Packet, Psn, SyndromeKind};

use crate::answer::{Class, unwrapped};
use crate::request::{Request, target_of};
use crate::{Limits, Recording, ReplayError};

/// How far behind the first request a first NAK may ask for a packet that the capture has not.
const FIRST_NAK_REACH: i64 = 4096;
/// Path MTU if no packet tells: that of the usual Ethernet.
const USUAL_MTU: usize = 1024;
/// RNR timer code of 0.64 ms, if none was recorded.
const USUAL_RNR_TIMER: u8 = 12;

/// Memory that the requests name by one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionSetup {
    /// The key in the recording.
    pub rkey: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// What was done with it.
    pub access: Access,
    /// The peer invalidated it, which it can do with a memory window only.
    pub is_window: bool,
}

/// A queue pair for which the recorded requests are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// First PSN that it expects.
    pub first_psn: Psn,
    /// Connection management told it, so that the MSN began with 0.
    pub is_start_known: bool,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Rights of the queue pair.
    pub access: Access,
    /// Registered memory.
    pub regions: Vec<RegionSetup>,
    /// The longest message that takes a receive, in bytes.
    pub longest_message: u64,
    /// RNR timer code.
    pub rnr_timer: u8,
}

impl Setup {
    /// Learns from `recording`, whose packets it numbers; those from before the first one that can be
    /// played are taken out.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn learn(recording: &mut Recording, limits: &Limits) -> Result<Self, ReplayError> {
        if recording.answers.is_empty() {
            return Err(ReplayError::NoAnswer);
        }
        let first_psn = begin(recording)?;
        let refused = Refused::of(recording);
        Ok(Self {
            first_psn,
            is_start_known: recording.first_psn == Some(first_psn),
            path_mtu: path_mtu(recording),
            access: queue_pair_access(recording, &refused),
            regions: regions(recording, &refused, limits)?,
            longest_message: longest_message(recording).min(limits.memory),
            rnr_timer: rnr_timer(recording),
        })
    }
}

/// Finds the first PSN, numbers all packets from it on and takes out those from before.
fn begin(recording: &mut Recording) -> Result<Psn, ReplayError> {
    let starts = |request: &Request| request.packet().is_some_and(|packet| packet.info.starts());
    let known = recording.first_psn;
    let from = match known {
        Some(psn) if recording.requests.iter().any(|request| request.psn == psn) => 0,
        _ => recording.requests.iter().position(starts).ok_or(ReplayError::NoRequest)?,
    };
    recording.requests.drain(..from);
    let seen = recording.requests.first().map(|request| request.psn);
    let seen = seen.ok_or(ReplayError::NoRequest)?;
    let first = match (known, from) {
        (Some(psn), 0) => psn,
        _ => asked_for(recording, seen).unwrap_or(seen),
    };
    number(recording, first);
    let start = i64::from(first.get());
    let is_cnp = |class| class == Class::CongestionNotification;
    recording.answers.retain(|answer| answer.place >= start || is_cnp(answer.class()));
    Ok(first)
}

/// The PSN that the first answer asks for, if it is one that the capture lacks.
fn asked_for(recording: &Recording, seen: Psn) -> Option<Psn> {
    let first = recording.answers.iter().find(|answer| answer.class() == Class::Acknowledge)?;
    let behind = i64::from(seen.since(first.psn));
    (first.is_sequence_nak() && (1..FIRST_NAK_REACH).contains(&behind)).then_some(first.psn)
}

fn number(recording: &mut Recording, first: Psn) {
    let mut last = i64::from(first.get());
    for request in &mut recording.requests {
        last = unwrapped(last, request.psn);
        request.place = last;
    }
    last = i64::from(first.get());
    for answer in &mut recording.answers {
        if answer.class() != Class::CongestionNotification {
            last = unwrapped(last, answer.psn);
            answer.place = last;
        }
    }
}

/// PSNs of requests that the responder refused.
struct Refused {
    access: HashSet<i64>,
    invalid: HashSet<i64>,
}

impl Refused {
    fn of(recording: &Recording) -> Self {
        let with = |code| {
            let is = move |kind| kind == Some(SyndromeKind::Nak(code));
            let answers = recording.answers.iter();
            answers.filter(|answer| is(answer.syndrome())).map(|answer| answer.place).collect()
        };
        Self { access: with(NakCode::RemoteAccess), invalid: with(NakCode::InvalidRequest) }
    }
}

/// The rights that a request needs.
fn rights(packet: &Packet<'_>) -> Access {
    match packet.info.operation {
        Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
        Operation::ReadRequest => Access::REMOTE_READ,
        Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
        Operation::Flush => Access::FLUSH_GLOBAL,
        _ => Access::empty(),
    }
}

fn queue_pair_access(recording: &Recording, refused: &Refused) -> Access {
    let done =
        recording.requests.iter().filter(|request| !refused.invalid.contains(&request.place));
    let needed = done.filter_map(Request::packet).map(|packet| rights(&packet));
    needed.fold(Access::LOCAL_WRITE, |all, access| all | access)
}

fn path_mtu(recording: &Recording) -> Mtu {
    let told = recording.path_mtu.and_then(|bytes| Mtu::from_bytes(bytes as usize));
    let longest = recording.answers.iter().map(|answer| answer.length as usize);
    let longest = recording
        .requests
        .iter()
        .filter_map(|request| request.packet().map(|packet| packet.payload().len()))
        .chain(longest)
        .fold(USUAL_MTU, usize::max);
    let fits = Mtu::ALL.into_iter().find(|mtu| mtu.bytes() >= longest);
    told.or(fits).unwrap_or(Mtu::M4096)
}

fn rnr_timer(recording: &Recording) -> u8 {
    let timers = recording.answers.iter().find_map(|answer| match answer.syndrome() {
        Some(SyndromeKind::Rnr { timer }) => Some(timer),
        _ => None,
    });
    timers.unwrap_or(USUAL_RNR_TIMER)
}

/// An upper bound: all packets from the start of a message on are counted, also those sent again.
fn longest_message(recording: &Recording) -> u64 {
    let (mut longest, mut message) = (0, 0);
    for packet in recording.requests.iter().filter_map(Request::packet) {
        if packet.info.operation == Operation::Send {
            message = if packet.info.starts() { 0 } else { message };
            message += packet.payload().len() as u64;
            longest = longest.max(message);
        }
    }
    longest
}

/// The extent of each key, without requests that were refused for it.
fn regions(
    recording: &Recording,
    refused: &Refused,
    limits: &Limits,
) -> Result<Vec<RegionSetup>, ReplayError> {
    let mut extents: BTreeMap<u32, (u64, u64, Access)> = BTreeMap::new();
    let mut windows = HashSet::new();
    let granted = |request: &&Request| !refused.access.contains(&request.place);
    for packet in recording.requests.iter().filter(granted).filter_map(Request::packet) {
        windows.extend(packet.ieth());
        let Some(target) = target_of(&packet).filter(|target| target.length > 0) else { continue };
        let Some(end) = target.va.checked_add(target.length) else { continue };
        if extents.len() >= limits.keys && !extents.contains_key(&target.rkey) {
            return Err(ReplayError::TooManyKeys { limit: limits.keys });
        }
        let extent = extents.entry(target.rkey).or_insert((u64::MAX, 0, Access::LOCAL_WRITE));
        // Atomics need the alignment that the address has.
        extent.0 = extent.0.min(target.va & !7);
        extent.1 = extent.1.max(end);
        extent.2 |= rights(&packet);
    }
    let mut bytes = 0u64;
    let mut regions = Vec::with_capacity(extents.len());
    for (rkey, (start, end, access)) in extents {
        let length = end - start;
        bytes = bytes.saturating_add(length);
        if bytes > limits.memory {
            return Err(ReplayError::TooMuchMemory { bytes, rkey, limit: limits.memory });
        }
        let is_window = windows.contains(&rkey);
        regions.push(RegionSetup { rkey, start, length, access, is_window });
    }
    // A window that the peer only invalidates has to be bound to something.
    for rkey in windows {
        if !regions.iter().any(|region| region.rkey == rkey) && regions.len() < limits.keys {
            let access = Access::LOCAL_WRITE;
            regions.push(RegionSetup { rkey, start: 0, length: 8, access, is_window: true });
        }
    }
    regions.sort_by_key(|region| region.rkey);
    Ok(regions)
}
