//! What was seen of one case: the programs, the proxy, and both wires.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use uroce_analyze::judge::Severity;
use uroce_analyze::report::{Analysis, AnalysisConfig, Report, Seen};
use uroce_analyze::track::{Retransmission, RetransmissionCause, Role};
use uroce_analyze::{CaptureReader, IcrcStatus, Packet};
use uroce_rxe_guest::Output;
use uroce_rxe_guest::addresses::HOST_V4;
use uroce_testbed::error::{Context, Error, Result};
use uroce_wire::{NakCode, Operation};

/// One packet of a capture, and what the tracker says about it.
#[derive(Debug, Clone)]
pub struct Sight {
    /// Its headers.
    pub packet: Packet,
    /// What it is to its flow.
    pub role: Role,
    /// Why it was sent again, if it was.
    pub again: Option<Retransmission>,
    /// Time from its request to this answer.
    pub round_trip: Option<Duration>,
    /// Its payload.
    payload: Vec<u8>,
}

/// What passed one tap.
#[derive(Debug)]
pub struct Wire {
    /// All packets in order.
    pub sights: Vec<Sight>,
    /// What `uroce analyze` says.
    pub report: Report,
}

/// All that is known about a case.
#[derive(Debug)]
pub struct Witness {
    /// What the client printed.
    pub client: Output,
    /// What the proxy did, as its JSON tells.
    pub proxy: Value,
    /// The tap of the client.
    pub near: Wire,
    /// The tap of the server.
    pub far: Wire,
}

impl Sight {
    fn new(seen: &Seen<'_>) -> Self {
        let Seen { packet, payload, annotation, .. } = *seen;
        Self {
            packet: *packet,
            role: annotation.role,
            again: annotation.retransmission,
            round_trip: annotation.round_trip,
            payload: payload.to_vec(),
        }
    }

    /// The client sent it.
    pub fn is_of_client(&self) -> bool {
        self.packet.source_ip() == HOST_V4
    }

    /// It is a request of this operation.
    pub fn does(&self, operation: Operation) -> bool {
        self.packet.opcode_info.is_some_and(|info| info.operation == operation)
    }

    /// It is a message of connection management with this attribute.
    pub fn is_message(&self, attribute: u16) -> bool {
        // The attribute stands at byte 16 of a MAD.
        self.role == Role::Management && self.payload.get(16..18) == Some(&attribute.to_be_bytes())
    }

    /// PSN as it stands in the packet.
    pub fn psn(&self) -> u32 {
        self.packet.bth.psn.get()
    }

    /// It is the packet that `other` is too, seen at another place.
    fn is_same(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.packet, &other.packet);
        (ours.bth, ours.aeth, ours.reth, ours.source, ours.traffic_class, ours.icrc)
            == (
                theirs.bth,
                theirs.aeth,
                theirs.reth,
                theirs.source,
                theirs.traffic_class,
                theirs.icrc,
            )
            && self.payload == other.payload
    }
}

impl Wire {
    /// Reads a capture and analyses it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let named = || path.display().to_string();
        let file = File::open(path).context(named)?;
        let mut reader = CaptureReader::new(file).context(named)?;
        let mut analysis = Analysis::new(AnalysisConfig::default());
        let mut sights = Vec::new();
        while let Some(frame) = reader.next_frame().context(named)? {
            analysis.handle_frame(&frame, &mut |seen| sights.push(Sight::new(&seen)));
        }
        Ok(Self { sights, report: analysis.finish(&named()) })
    }

    /// The packets that are so.
    pub fn all(&self, is_so: impl Fn(&Sight) -> bool) -> Vec<&Sight> {
        self.sights.iter().filter(|sight| is_so(sight)).collect()
    }

    /// How many packets are so.
    pub fn count(&self, is_so: impl Fn(&Sight) -> bool) -> usize {
        self.all(is_so).len()
    }

    /// NAKs with this code.
    pub fn naks(&self, code: NakCode) -> Vec<&Sight> {
        self.all(|sight| sight.role == Role::Nak(code))
    }

    /// How many requests of the client were sent again, by this cause.
    pub fn sent_again(&self, cause: RetransmissionCause) -> usize {
        self.count(|sight| sight.again.is_some_and(|again| again.cause == cause))
    }

    /// How many requests were sent again for no reason that the whole capture shows: what the first packets of a
    /// round look like is corrected by those behind them.
    fn unexplained(&self) -> u64 {
        let flows = self.report.conversations.iter().flat_map(|row| &row.flows);
        let place = RetransmissionCause::Unexplained.index();
        flows.map(|flow| flow.figures.retransmissions[place].packets).sum()
    }

    /// Packets with a wrong ICRC.
    pub fn damaged(&self) -> usize {
        self.count(|sight| matches!(sight.packet.icrc, IcrcStatus::Wrong { .. }))
    }

    /// Why the first conversation that failed did so.
    pub fn failure(&self) -> Option<&str> {
        self.report.conversations.iter().find_map(|row| row.failure.as_deref())
    }

    /// The shortest and the longest round trip.
    pub fn round_trips(&self) -> Option<(Duration, Duration)> {
        let times = || self.sights.iter().filter_map(|sight| sight.round_trip);
        times().min().zip(times().max())
    }

    /// Warnings and errors that `uroce analyze` tells, by name.
    pub fn findings(&self) -> Vec<&'static str> {
        let bad = self.report.findings.iter().filter(|row| row.severity > Severity::Note);
        bad.map(|row| row.rule).collect()
    }

    /// Nothing was damaged or refused, and nothing was sent again but by a timeout: the timer of rxe runs out 67 ms
    /// after a first request, whatever was acknowledged since. There is nothing to complain about.
    fn must_be_quiet(&self, name: &str) -> Result<()> {
        let by_timer = [RetransmissionCause::AckTimeout, RetransmissionCause::TailProbe];
        let again =
            self.count(|sight| sight.again.is_some_and(|again| !by_timer.contains(&again.cause)));
        let findings = self.findings();
        if again + self.damaged() > 0 || !findings.is_empty() || self.failure().is_some() {
            let (damaged, failure) = (self.damaged(), self.failure().unwrap_or("none"));
            return Err(Error::new(format!(
                "{name}: {again} packets were sent again, {damaged} damaged; findings {findings:?}; failure: {failure}"
            )));
        }
        Ok(())
    }
}

impl Witness {
    /// How many packets a rule was applied to.
    pub fn applied(&self, rule: &str) -> u64 {
        let rules = self.proxy["faults"]["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        rules
            .iter()
            .find(|line| line["name"] == rule)
            .and_then(|line| line["applied"].as_u64())
            .unwrap_or(0)
    }

    /// Both wires have carried the same packets, unharmed, and neither has anything to complain about.
    ///
    /// # Errors
    /// What differs.
    pub fn must_be_untouched(&self) -> Result<String> {
        self.near.must_be_quiet("near tap")?;
        self.far.must_be_quiet("far tap")?;
        for by_client in [true, false] {
            let [near, far] = [&self.near, &self.far]
                .map(|wire| wire.all(|sight| sight.is_of_client() == by_client));
            let same = near.iter().zip(&far).take_while(|(near, far)| near.is_same(far)).count();
            if same < near.len().max(far.len()) {
                let (near, far) = (near.len(), far.len());
                return Err(Error::new(format!(
                    "of {near} packets at the near tap and {far} at the far one only the first {same} are the same"
                )));
            }
        }
        Ok(format!("{} packets, the same at both taps", self.near.sights.len()))
    }

    /// What holds in every case: the proxy lost nothing by itself, and every repetition has a cause.
    ///
    /// # Errors
    /// What does not hold.
    pub fn must_be_explained(&self) -> Result<()> {
        for side in self.proxy["interfaces"].as_array().map(Vec::as_slice).unwrap_or_default() {
            must(side["lost"] == 0, || format!("the proxy lost frames of its own: {side}"))?;
        }
        for (name, wire) in [("near", &self.near), ("far", &self.far)] {
            let unexplained = wire.unexplained();
            must(unexplained == 0, || {
                format!("{unexplained} repetitions at the {name} tap are unexplained")
            })?;
        }
        Ok(())
    }
}

/// An error that says `otherwise` unless `holds`.
pub fn must(holds: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::new(otherwise())) }
}
