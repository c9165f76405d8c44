//! What a queue pair was made with and is set to: read by both of its halves.

use std::net::IpAddr;

use uroce_memory::{PdId, Requirer};
use uroce_wire::{DropReason, Operation, Packet, Qpn, Service, XrcEth};

use crate::attr::{AddressVector, QpAttr, QpInit, QpType};
use crate::completion_counter::AttachedCounters;
use crate::context::{Arrival, Path};
use crate::qp::{Admitted, port};
use crate::qp_state::QpState;
use crate::wc::{Wc, WcOpcode};
use crate::wr::{PostError, SendFlags, SendWr};

/// What a queue pair was made with and is set to, lent to its requester and its responder for each call.
#[derive(Debug)]
pub(crate) struct QpConfig {
    pub(crate) init: QpInit,
    pub(crate) attr: QpAttr,
    pub(crate) state: QpState,
    /// UDP source port of its packets.
    pub(crate) src_port: u16,
    pub(crate) features: Features,
    pub(crate) completion_counters: AttachedCounters,
}

/// What a queue pair does beyond the specification where that is a help. All of it is off unless asked for, and only RC and XRC
/// queue pairs have any of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// The requester repeats its last packet when the peer is silent for much longer than it was before.
    pub tail_probes: bool,
    /// The requester sends only what is missing to a peer that keeps the rest. Without it it goes back to the missing packet
    /// and sends everything again.
    pub selective_repeat: bool,
    /// The responder has a reorder buffer for SENDs and WRITEs that come behind a PSN gap. Without it they are dropped, as
    /// other implementations do.
    pub reorder_buffer: bool,
    /// A WRITE of several packets without immediate data, up to [`SPLIT_WRITE_BYTES`](crate::limits::SPLIT_WRITE_BYTES), leaves as a WRITE ONLY for each
    /// packet instead of FIRST, MIDDLE and LAST: packets of one length form GSO batches across messages (ADR 36).
    pub split_writes: bool,
}

impl QpConfig {
    /// That of a queue pair in RESET.
    pub(super) fn new(init: &QpInit) -> Self {
        QpConfig {
            init: *init,
            attr: QpAttr::default(),
            state: QpState::Reset,
            src_port: port::from_qpn(init.qpn),
            features: Features::default(),
            completion_counters: AttachedCounters::default(),
        }
    }

    /// The UDP source port that this QP would like (docs/wire.md).
    pub(super) fn wanted_source_port(&self) -> u16 {
        match (self.init.qp_type, &self.attr.av) {
            (QpType::Ud, _) | (_, None) => port::from_qpn(self.init.qpn),
            (_, Some(av)) => port::from_path(av.flow_label, self.init.qpn, self.peer_qpn()),
        }
    }

    /// Checks 6 to 8 of docs/wire.md: service, state, addresses, P_Key, Q_Key. Called before
    /// the ICRC is computed; nothing has changed when it refuses.
    pub(super) fn admits(
        &self,
        arrival: &Arrival,
        packet: &Packet<'_>,
    ) -> Result<Admitted, DropReason> {
        match packet.info.service {
            Service::Cnp => {}
            other if other != self.service() => return Err(DropReason::ServiceMismatch),
            Service::Xrc => self.admits_direction(packet)?,
            Service::Rc | Service::Uc | Service::Ud => {}
        }
        if packet.bth.dest_qpn == Qpn::MULTICAST && self.init.qp_type != QpType::Ud {
            return Err(DropReason::MulticastNotUd);
        }
        self.admits_in_state(packet)?;
        if self.init.qp_type != QpType::Ud {
            let av = self.attr.av.as_ref().ok_or(DropReason::QpState)?;
            if arrival.src != av.remote {
                return Err(DropReason::WrongPeer);
            }
            if arrival.dst != av.local {
                return Err(DropReason::WrongDestination);
            }
        }
        // R6: the only P_Key is the default one; full or limited membership both match full.
        if packet.bth.pkey & 0x7fff != 0x7fff {
            return Err(DropReason::PkeyMismatch);
        }
        // Only datagrams have a Q_Key.
        let is_ud = self.init.qp_type == QpType::Ud;
        if is_ud && packet.deth().is_some_and(|deth| deth.qkey != self.attr.qkey) {
            return Err(DropReason::QkeyMismatch);
        }
        Ok(Admitted(self.init.qpn))
    }

    /// The application wants to hear of the success of a request with these flags, too.
    #[inline]
    pub(crate) fn is_signaled(&self, flags: SendFlags) -> bool {
        self.init.signal_all || flags.contains(SendFlags::SIGNALED)
    }

    /// The path to the connected peer.
    pub(crate) fn path(&self) -> Path {
        match &self.attr.av {
            Some(av) => self.path_to(av),
            None => {
                let unspecified = IpAddr::from([0, 0, 0, 0]);
                self.path_to(&AddressVector::new(unspecified, unspecified))
            }
        }
    }

    pub(super) fn path_to(&self, av: &AddressVector) -> Path {
        Path {
            src: av.local,
            dst: av.remote,
            src_port: self.src_port,
            hop_limit: if av.hop_limit == 0 { 64 } else { av.hop_limit },
            traffic_class: av.traffic_class,
        }
    }

    /// The address of the peer, once it is known.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.attr.av.as_ref().map(|av| av.remote)
    }

    #[inline]
    pub(super) fn check_send_state(&self) -> Result<(), PostError> {
        match self.state {
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => Ok(()),
            QpState::Reset | QpState::Init | QpState::Rtr => {
                let need = "move it to RTS before posting sends";
                Err(PostError::WrongState { state: self.state, need })
            }
        }
    }

    pub(super) fn check_destination(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        match self.init.qp_type {
            QpType::Ud if wr.ud.is_none() && !wr.op.is_local() => {
                Err(PostError::MissingDestination)
            }
            QpType::XrcIni if wr.srqn.is_none() && !wr.op.is_local() => Err(PostError::MissingSrq),
            QpType::XrcTgt => Err(PostError::OnlyResponds),
            _ => Ok(()),
        }
    }

    /// X1: requests go to the target, responses to the initiator.
    fn admits_direction(&self, packet: &Packet<'_>) -> Result<(), DropReason> {
        let target = self.init.qp_type == QpType::XrcTgt;
        if packet.info.is_request() == target { Ok(()) } else { Err(DropReason::XrcDirection) }
    }

    fn admits_in_state(&self, packet: &Packet<'_>) -> Result<(), DropReason> {
        let responder = packet.info.is_request() || packet.info.operation == Operation::Cnp;
        match self.state {
            QpState::Err => Err(DropReason::ErrorState),
            QpState::Rts | QpState::Sqd | QpState::Sqe => Ok(()),
            QpState::Rtr if responder => Ok(()),
            QpState::Reset | QpState::Init | QpState::Rtr => Err(DropReason::QpState),
        }
    }

    pub(super) fn service(&self) -> Service {
        self.init.qp_type.service()
    }

    /// The peer's queue pair, for RC and UC.
    pub(crate) fn peer_qpn(&self) -> Qpn {
        Qpn::new(self.attr.dest_qpn)
    }

    #[inline]
    pub(crate) fn mtu(&self) -> u64 {
        match self.init.qp_type {
            QpType::Ud => self.init.port_mtu.bytes() as u64,
            _ => self.attr.path_mtu.bytes() as u64,
        }
    }

    /// The path MTU as a power of two.
    pub(crate) fn mtu_shift(&self) -> u32 {
        self.mtu().trailing_zeros()
    }

    /// The completion of a receive work request that has got so many bytes of a plain SEND.
    #[inline]
    pub(super) fn received(&self, wr_id: u64, byte_len: u32, src_ip: Option<IpAddr>) -> Wc<()> {
        Wc {
            wr_id,
            opcode: WcOpcode::Recv,
            byte_len,
            qpn: self.init.qpn.get(),
            src_qpn: self.attr.dest_qpn,
            src_ip,
            ..Wc::default()
        }
    }

    /// X2: what stands right behind the BTH of every request of XRC.
    pub(super) fn xrceth_of(&self, srqn: Option<u32>) -> Option<XrcEth> {
        let srqn = srqn.filter(|_| self.init.qp_type == QpType::XrcIni)?;
        Some(XrcEth { srqn })
    }

    /// This QP as accessor of memory of a protection domain.
    pub(super) fn requirer(&self, pd: PdId) -> Requirer {
        Requirer { pd, qpn: self.init.qpn.get() }
    }
}

/// Bytes that fill `length` up to a multiple of four.
pub(crate) fn pad_of(length: usize) -> usize {
    length.wrapping_neg() & 3
}
