//! QP 1, the general services interface: it belongs to the device, and carries the MADs of the
//! connection manager and of the management agents.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use uroce_cm::{AgentRequest, Cm, CmLimits, CommId, GSI_QKEY, Identity, MAD_LEN, ServiceId, Time};
use uroce_transport::{Instant, Path, Step, Transmit};
use uroce_wire::{Bth, Deth, HeaderWriter, ICRC_LEN, Opcode, Psn, Qpn};

use crate::cm_channel::{CmChannel, CmEvent, CmEventKind};
use crate::engine::rx_icrc::RxIcrc;

/// The UDP source port that rxe hashes from QPN 1.
pub(crate) const GSI_SOURCE_PORT: u16 = 0xd872;
/// Our ACK delay (code), as `ibv_query_device` reports it.
pub(crate) const ACK_DELAY: u8 = 15;
const HOP_LIMIT: u8 = 64;

/// The event channel of a connection, and its queue pair.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) channel: CmChannel,
    pub(crate) cookie: u64,
    pub(crate) qpn: Option<Qpn>,
}

impl Owner {
    pub(crate) fn tell(&self, id: CommId, kind: CmEventKind) {
        self.channel.post(CmEvent { cookie: self.cookie, id, kind });
    }
}

/// QP 1 with its connection manager.
#[derive(Debug)]
pub(crate) struct Gsi {
    pub(crate) cm: Cm,
    /// The IPv4 identifications of all peers together.
    pub(crate) rx_icrc: RxIcrc,
    pub(crate) owners: HashMap<CommId, Owner>,
    pub(crate) listeners: HashMap<ServiceId, Owner>,
    /// Services that applications have bound, with or without a listener.
    pub(crate) bound: HashSet<ServiceId>,
    /// Services without a listener that calls may still come for again.
    pub(crate) retiring: Vec<ServiceId>,
    /// Requests to the management agents of the last batch, and the addresses of their senders.
    pub(crate) asked: Vec<(IpAddr, AgentRequest)>,
    address: IpAddr,
    src_port: u16,
    psn: Psn,
}

/// The connection manager counts time in `Duration`s.
pub(crate) fn time(now: Instant) -> Time {
    Duration::from_nanos(now.as_nanos())
}

impl Gsi {
    pub(crate) fn new(us: Identity, src_port: u16, seed: [u8; 32]) -> Gsi {
        Gsi {
            address: us.address,
            cm: Cm::new(us, CmLimits::default(), seed),
            rx_icrc: RxIcrc::default(),
            owners: HashMap::new(),
            listeners: HashMap::new(),
            bound: HashSet::new(),
            retiring: Vec::new(),
            asked: Vec::new(),
            src_port,
            psn: Psn::new(0),
        }
    }

    /// Nothing is to be done, now or at a later time, until a MAD or a command comes.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.cm.is_idle() && self.retiring.is_empty()
    }

    pub(crate) fn wants_transmit(&self) -> bool {
        self.cm.wants_transmit()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let at = self.cm.poll_timeout()?;
        Some(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The first packet of a connection arrived (R113).
    pub(crate) fn handle_comm_est(&mut self, id: CommId) {
        self.cm.handle_comm_est(id);
    }

    /// Writes the next MAD as a packet, without its ICRC.
    pub(crate) fn poll_transmit(&mut self, space: &mut [u8]) -> Option<Transmit> {
        let outgoing = self.cm.poll_transmit()?;
        let mut headers = HeaderWriter::new(space);
        headers.put(&Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, self.psn))?;
        headers.put(&Deth { qkey: GSI_QKEY, src_qpn: Qpn::GSI })?;
        let at = headers.len();
        let payload: &mut [u8; MAD_LEN] = space.get_mut(at..)?.first_chunk_mut()?;
        *payload = outgoing.bytes;
        self.psn = Psn::new(self.psn.get().wrapping_add(1));
        let path = Path {
            src: self.address,
            dst: outgoing.peer,
            src_port: self.src_port,
            hop_limit: HOP_LIMIT,
            traffic_class: outgoing.traffic_class,
        };
        Some(Transmit { len: at + MAD_LEN + ICRC_LEN, path, step: Step::Ends })
    }
}
