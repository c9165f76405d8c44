//! What a request may use: whose memory it reaches, whose receives it takes, where those complete.
//!
//! For RC, UC and UD that is settled when the queue pair is made. A request of XRC names a shared
//! receive queue, which brings all three (X3, X5).

use uroce_memory::PdId;
use uroce_wire::Packet;

use crate::attr::QpInit;
use crate::context::Context;
use crate::cq::CqId;
use crate::qp::config::QpConfig;
use crate::qp::responder::Responder;
use crate::srq::SrqId;

use super::checks::Refusal;

/// What a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// Protection domain of the keys that the request names.
    pub(super) pd: PdId,
    /// Where its receive comes from, if not from the queue pair's own queue.
    pub(super) srq: Option<SrqId>,
    /// Where that receive completes.
    pub(super) recv_cq: CqId,
}

impl Target {
    /// What the queue pair was made with.
    pub(crate) fn of(init: &QpInit) -> Target {
        Target { pd: init.pd, srq: init.srq, recv_cq: init.recv_cq }
    }
}

impl Responder {
    /// X3: from here on the request in hand uses what its XRCETH names, if it has one.
    #[inline]
    pub(super) fn aim(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        match packet.xrceth() {
            None => Ok(()),
            Some(xrceth) => self.aim_at(config, xrceth.srqn, packet, cx),
        }
    }

    fn aim_at(
        &mut self,
        config: &QpConfig,
        srqn: u32,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let named = cx.srqs.xrc_named(srqn).filter(|named| Some(named.2.xrcd) == config.init.xrcd);
        let Some((id, pd, xrc)) = named else {
            return Err(Refusal::invalid(packet, "it names no XRC SRQ of the QP's domain"));
        };
        let target = Target { pd, srq: Some(id), recv_cq: xrc.cq };
        if self.message.is_some() && target != self.target {
            return Err(Refusal::invalid(
                packet,
                "it names another SRQ than its message began with",
            ));
        }
        self.target = target;
        Ok(())
    }

    /// The shared receive queue is being destroyed: a message that is on its way into it is cut short,
    /// and the rest of it refused. Its receive goes with the queue.
    pub(crate) fn forget_srq(&mut self, config: &QpConfig, id: SrqId) {
        if config.init.xrcd.is_some() && self.target.srq == Some(id) {
            self.release_receive();
            self.target = Target::of(&config.init);
        }
    }
}
