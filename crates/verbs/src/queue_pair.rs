//! Queue pairs.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use uroce_device::transport::{QpAttr, QpAttrMask, QpCaps, QpState, QpType};
use uroce_device::wire::{Gid, Psn, Qpn};
use uroce_device::{McastError, ModifyError, NoSuchObject, QpRequest};

use crate::address_handle::AddressHandleAttr;
use crate::completion_queue::CompletionQueue;
use crate::connection::{ConnectOptions, to_init};
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::error::{ConnectError, CreateQueuePairError, PostError};
use crate::protection_domain::ProtectionDomain;
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::work_request::{RecvWr, SendWr, fault, lowered};
use crate::xrc_domain::XrcDomain;

/// A queue pair (`ibv_qp`). Dropping it destroys it: then it raises no further completion and
/// touches no memory (R93). Completions raised before stay in their queues.
///
/// A connected queue pair (RC, UC, XRC) is built in RESET; [`init`](Self::init) brings it to INIT, where receives can be
/// posted; [`connect`](Self::connect) brings it to RTS, where it sends and receives. A datagram queue pair (UD) is
/// [activated](Self::activate) instead of connected.
///
/// ```no_run
/// # use uroce_verbs::*;
/// # fn tell(_: Endpoint) {}
/// # fn told() -> Endpoint { unimplemented!() }
/// # fn f(pd: &ProtectionDomain, cq: &CompletionQueue, mr: &MemoryRegion) -> Result<(), Box<dyn std::error::Error>> {
/// let qp = pd.qp_builder(QpType::Rc, cq, cq).build()?;
/// qp.init()?;
/// qp.post_recv(&[RecvWr::new(1, &[mr.sge(..)])])?; // before the peer can send
/// tell(qp.endpoint()); // to the peer, over a socket
/// qp.connect(&told(), &ConnectOptions::default())?; // what the peer told
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct QueuePair {
    qpn: Qpn,
    qp_type: QpType,
    caps: QpCaps,
    start_psn: AtomicU32,
    send_cq: CompletionQueue,
    recv_cq: CompletionQueue,
    srq: Option<SharedReceiveQueue>,
    xrcd: Option<XrcDomain>,
    pd: ProtectionDomain,
}

impl XrcDomain {
    /// Makes a target (`IBV_QPT_XRC_RECV`), in the state RESET: the end of a connection that responds.
    /// Each message that arrives names the shared receive queue of this domain that it is for; the target has no
    /// queues of its own.
    ///
    /// # Errors
    /// [`CreateQueuePairError`] at the device's limit.
    pub fn create_target(&self) -> Result<QueuePair, CreateQueuePairError> {
        QueuePair::new_target(self)
    }
}

impl QueuePair {
    pub(crate) fn new(
        request: &QpRequest,
        pd: &ProtectionDomain,
        [send_cq, recv_cq]: [&CompletionQueue; 2],
        srq: Option<&SharedReceiveQueue>,
    ) -> Result<Self, CreateQueuePairError> {
        let start_psn = AtomicU32::new(random_psn()?);
        let qpn = pd.context().device().create_qp(request)?;
        Ok(QueuePair {
            qpn,
            qp_type: request.qp_type,
            caps: request.caps,
            start_psn,
            send_cq: send_cq.clone(),
            recv_cq: recv_cq.clone(),
            srq: srq.cloned(),
            xrcd: None,
            pd: pd.clone(),
        })
    }

    fn new_target(domain: &XrcDomain) -> Result<Self, CreateQueuePairError> {
        let (pd, cq) = domain.of_targets();
        let start_psn = AtomicU32::new(random_psn()?);
        let qpn = pd.context().device().xrc().create_target(domain.id())?;
        Ok(QueuePair {
            qpn,
            qp_type: QpType::XrcTgt,
            caps: QpCaps::default(),
            start_psn,
            send_cq: cq.clone(),
            recv_cq: cq.clone(),
            srq: None,
            xrcd: Some(domain.clone()),
            pd: pd.clone(),
        })
    }

    /// The queue pair number, which is unpredictable (A8).
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// RC, UC, UD, or an end of XRC.
    pub fn qp_type(&self) -> QpType {
        self.qp_type
    }

    /// The sizes that the queue pair was built with.
    pub fn caps(&self) -> QpCaps {
        self.caps
    }

    /// The protection domain of this queue pair. That of an XRC target belongs to its domain, and
    /// nothing is registered in it.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// The device of this queue pair.
    pub fn context(&self) -> &Context {
        self.pd.context()
    }

    /// The completion queue of send work requests.
    pub fn send_cq(&self) -> &CompletionQueue {
        &self.send_cq
    }

    /// The completion queue of receive work requests.
    pub fn recv_cq(&self) -> &CompletionQueue {
        &self.recv_cq
    }

    /// The shared receive queue, if the queue pair was built with one.
    pub fn srq(&self) -> Option<&SharedReceiveQueue> {
        self.srq.as_ref()
    }

    /// The XRC domain, if the queue pair is an XRC target.
    pub fn xrcd(&self) -> Option<&XrcDomain> {
        self.xrcd.as_ref()
    }

    /// The state of the queue pair now.
    pub fn state(&self) -> QpState {
        self.query().map_or(QpState::Err, |attr| attr.state)
    }

    /// The attributes in force (`ibv_query_qp`).
    ///
    /// # Errors
    /// None, as long as this object exists.
    pub fn query(&self) -> Result<QpAttr, NoSuchObject> {
        self.context().device().query_qp(self.qpn).map(|(attr, _)| attr)
    }

    /// Modifies the attributes that `mask` names, all or none (`ibv_modify_qp`, R92). [`init`](Self::init),
    /// [`connect`](Self::connect), [`activate`](Self::activate), [`fail`](Self::fail) and [`reset`](Self::reset) do it
    /// for the usual transitions.
    ///
    /// # Errors
    /// [`ModifyError`] says which attribute is missing, superfluous or out of range.
    pub fn modify(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        self.context().device().modify_qp(self.qpn, attr, mask)
    }

    /// What the peer must know to connect to this queue pair.
    pub fn endpoint(&self) -> Endpoint {
        let gid = Gid::from_ip(self.context().address());
        let mtu = Some(self.context().device().active_mtu());
        Endpoint { mtu, ..Endpoint::new(gid, self.qpn, self.start_psn()) }
    }

    pub(crate) fn start_psn(&self) -> Psn {
        Psn::new(self.start_psn.load(Ordering::Relaxed))
    }

    /// RESET to INIT: receives can be posted, packets are not accepted yet. Post receives before
    /// connecting, and no peer can be too early.
    ///
    /// # Errors
    /// [`ModifyError`] in any other state but RESET and INIT.
    pub fn init(&self) -> Result<(), ModifyError> {
        let (attr, mask) = to_init(self.qp_type);
        self.modify(&attr, mask)
    }

    fn init_if_reset(&self) -> Result<(), ModifyError> {
        if self.state() == QpState::Reset { self.init() } else { Ok(()) }
    }

    /// Connects an RC, UC or XRC queue pair in RESET or INIT: when the call returns, it receives from
    /// `peer` and can send to it. Nothing goes over the network, and the call does not wait: the peer must make the
    /// same call, and requests that are posted before that are repeated until it has, as often as `options` allow.
    ///
    /// # Errors
    /// [`ConnectError`]: the queue pair is UD or in another state, no path to that GID, an option
    /// out of range. It may have come as far as RTR then: [`reset`](Self::reset) it before another try.
    pub fn connect(&self, peer: &Endpoint, options: &ConnectOptions) -> Result<(), ConnectError> {
        if self.qp_type == QpType::Ud {
            return Err(ConnectError::Datagram);
        }
        let path = AddressHandleAttr {
            hop_limit: options.hop_limit,
            traffic_class: options.traffic_class,
            flow_label: options.flow_label,
            gid_index: options.gid_index,
            ..peer.gid.into()
        };
        let path = path.path(&self.pd)?;
        let mtu = options.mtu.unwrap_or_else(|| {
            let active = self.context().device().active_mtu();
            peer.mtu.map_or(active, |theirs| theirs.min(active))
        });
        self.init_if_reset()?;
        let (attr, mask) = options.to_rtr(self.qp_type, peer, path, mtu);
        self.modify(&attr, mask)?;
        let (attr, mask) = options.to_rts(self.qp_type, self.start_psn());
        Ok(self.modify(&attr, mask)?)
    }

    /// Makes a UD queue pair in RESET or INIT ready to send and receive. It accepts messages that
    /// carry `qkey`.
    ///
    /// # Errors
    /// [`ConnectError`]: the queue pair is not UD, or in another state.
    pub fn activate(&self, qkey: u32) -> Result<(), ConnectError> {
        if self.qp_type != QpType::Ud {
            return Err(ConnectError::NotDatagram);
        }
        self.init_if_reset()?;
        let attr = QpAttr { state: QpState::Rtr, qkey, ..QpAttr::default() };
        self.modify(&attr, QpAttrMask::STATE | QpAttrMask::QKEY)?;
        let sq_psn = self.start_psn().get();
        let attr = QpAttr { state: QpState::Rts, sq_psn, ..QpAttr::default() };
        Ok(self.modify(&attr, QpAttrMask::STATE | QpAttrMask::SQ_PSN)?)
    }

    /// Moves the queue pair to the error state: all outstanding work requests complete as flushed.
    ///
    /// # Errors
    /// [`ModifyError`] in RESET.
    pub fn fail(&self) -> Result<(), ModifyError> {
        self.enter(QpState::Err)
    }

    /// Moves the queue pair to RESET: its queues are emptied, its completions removed (R91). It can
    /// be connected again, then from another PSN: ask for its [`endpoint`](Self::endpoint) anew.
    ///
    /// # Errors
    /// [`ModifyError`]; there is no known reason.
    pub fn reset(&self) -> Result<(), ModifyError> {
        self.enter(QpState::Reset)?;
        // Without randomness the old one serves; it was random as well.
        if let Ok(psn) = random_psn() {
            self.start_psn.store(psn, Ordering::Relaxed);
        }
        Ok(())
    }

    fn enter(&self, state: QpState) -> Result<(), ModifyError> {
        self.modify(&QpAttr { state, ..QpAttr::default() }, QpAttrMask::STATE)
    }

    /// Posts send work requests (`ibv_post_send`) in order; what can be sent at once is sent.
    /// Nothing is allocated.
    ///
    /// A place in the send queue is free again as soon as its request has completed, as in rxe, and
    /// not when the completion is polled. So a full send queue does not protect the completion queue:
    /// count what is outstanding, and poll before more completions wait than it holds.
    ///
    /// # Errors
    /// [`PostError`] names the request that was refused, and why; those before it are posted (B36).
    pub fn post_send(&self, wrs: &[SendWr<'_>]) -> Result<(), PostError> {
        let refused = wrs
            .iter()
            .enumerate()
            .find_map(|(index, wr)| fault(wr, &self.pd).map(|reason| PostError { index, reason }));
        let good = refused.as_ref().map_or(wrs.len(), |error| error.index);
        let device = self.context().device();
        device
            .post_send_each(self.qpn, wrs[..good].iter().map(lowered))
            .map_err(PostError::from)?;
        refused.map_or(Ok(()), Err)
    }

    /// Posts receive work requests (`ibv_post_recv`), in INIT or any later state. A UD message needs 40 bytes
    /// ([`GRH_AREA_LEN`](crate::GRH_AREA_LEN)) more than its length. A WRITE with immediate data uses one up, which needs
    /// no buffer: `RecvWr::new(1, &[])`.
    ///
    /// # Errors
    /// [`PostError`] names the request that was refused, and why; those before it are posted (B36).
    pub fn post_recv(&self, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.context().device().post_recv(self.qpn, wrs).map_err(PostError::from)
    }

    /// Receives what is sent to a multicast group (`ibv_attach_mcast`), if it carries the Q_Key of
    /// this queue pair.
    ///
    /// # Errors
    /// [`McastError`]: not UD, not a group of our IP version, or the kernel refuses.
    pub fn attach_mcast(&self, group: IpAddr) -> Result<(), McastError> {
        self.context().device().attach_mcast(self.qpn, group)
    }

    /// Leaves a multicast group (`ibv_detach_mcast`).
    ///
    /// # Errors
    /// [`McastError::NotAttached`]: the queue pair is not in that group.
    pub fn detach_mcast(&self, group: IpAddr) -> Result<(), McastError> {
        self.context().device().detach_mcast(self.qpn, group)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // It exists as long as this object, and can be destroyed in any state.
        let _ = self.context().device().destroy_qp(self.qpn);
    }
}

fn random_psn() -> Result<u32, getrandom::Error> {
    getrandom::u32().map(|random| Psn::new(random).get())
}
