//! One line of text per packet.

use core::fmt;

use crate::{Packet, SyndromeKind};

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bth = &self.bth;
        write!(f, "{} qpn {} psn {}", self.info.name, bth.dest_qpn, bth.psn)?;
        for (set, text) in [(bth.solicited, " se"), (bth.ack_req, " ack-req"), (bth.becn, " becn")]
        {
            if set {
                f.write_str(text)?;
            }
        }
        self.write_requests(f)?;
        self.write_responses(f)?;
        if self.info.carries_payload() {
            write!(f, " payload {}", self.payload().len())?;
        }
        Ok(())
    }
}

impl Packet<'_> {
    fn write_requests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(deth) = self.deth() {
            write!(f, " qkey {:#x} from {}", deth.qkey, deth.src_qpn)?;
        }
        if let Some(xrc) = self.xrceth() {
            write!(f, " srq {:#x}", xrc.srqn)?;
        }
        if let Some(feth) = self.feth() {
            write!(f, " placement {} selectivity {}", feth.placement, feth.selectivity)?;
        }
        if let Some(reth) = self.reth() {
            write!(f, " va {:#x} rkey {:#x} len {}", reth.va, reth.rkey, reth.length)?;
        }
        if let Some(eth) = self.atomic_eth() {
            write!(f, " va {:#x} rkey {:#x}", eth.va, eth.rkey)?;
            write!(f, " swap/add {:#x} compare {:#x}", eth.swap_add, eth.compare)?;
        }
        if let Some(imm) = self.immdt() {
            write!(f, " imm {imm:#x}")?;
        }
        match self.ieth() {
            Some(rkey) => write!(f, " invalidate {rkey:#x}"),
            None => Ok(()),
        }
    }

    fn write_responses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(aeth) = self.aeth() {
            match aeth.syndrome.kind() {
                SyndromeKind::Ack { credits: 31 } => f.write_str(" ack")?,
                SyndromeKind::Ack { credits } => write!(f, " ack credits {credits}")?,
                SyndromeKind::Rnr { timer } => {
                    write!(f, " rnr-nak wait {} us", crate::rnr_timer_us(timer))?;
                }
                SyndromeKind::Nak(code) => write!(f, " nak {code:?}")?,
                SyndromeKind::ReservedNak(code) => write!(f, " nak reserved {code}")?,
                SyndromeKind::Reserved(raw) => write!(f, " syndrome {raw:#x} reserved")?,
            }
            write!(f, " msn {}", aeth.msn)?;
        }
        match self.atomic_ack_eth() {
            Some(answer) => write!(f, " original {:#x}", answer.original),
            None => Ok(()),
        }
    }
}
