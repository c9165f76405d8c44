//! What must come back, and what must not.

use std::time::Duration;

use uroce_wire::{Aeth, NakCode, Opcode, SyndromeKind};

use crate::player::Seen;
use crate::position::{position, positioned};
use crate::verdict::{check, fail, unexpected};
use crate::{Came, Qp, State, Stop};

impl Qp<'_, '_> {
    /// The next packet, if one comes within `wait`.
    ///
    /// # Errors
    /// A packet came that no rule allows: malformed, or with a wrong ICRC.
    pub fn within(&self, wait: Duration) -> Result<Option<Came>, Stop> {
        let seen = self.bench.player.borrow_mut().receive(self.own_qpn, wait)?;
        seen.map(|seen| self.came(seen)).transpose()
    }

    /// Reads a packet that came for it.
    pub(crate) fn came(&self, seen: Seen) -> Result<Came, Stop> {
        Came::read(seen, self.peer_first, self.first)
    }

    /// The next packet, which must come.
    ///
    /// # Errors
    /// None came; `expected` is for the sentence.
    pub fn next(&self, expected: &str) -> Result<Came, Stop> {
        match self.within(self.bench.patience.answer)? {
            Some(came) => Ok(came),
            None => fail(format!("expected {expected}; nothing came")),
        }
    }

    /// Nothing comes.
    ///
    /// # Errors
    /// Something came.
    pub fn silence(&self) -> Result<(), Stop> {
        self.silence_for(self.bench.patience.silence)
    }

    /// Nothing comes for this time.
    ///
    /// # Errors
    /// Something came.
    pub fn silence_for(&self, time: Duration) -> Result<(), Stop> {
        match self.within(time)? {
            None => Ok(()),
            Some(came) => fail(format!("expected silence, got {came}")),
        }
    }

    /// No new request comes. Those that wait for their ACK may come again: a requester may repeat sooner than its timeout.
    ///
    /// # Errors
    /// One came.
    pub fn nothing_new(&self) -> Result<(), Stop> {
        let end = self.now() + self.bench.patience.silence;
        while let Some(came) = self.within(end.saturating_sub(self.now()))? {
            check(came.psn <= self.newest.get(), || format!("expected nothing new, got {came}"))?;
        }
        Ok(())
    }

    /// ACK of request `psn`; ACKs of earlier ones may come before it.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn ack(&self, psn: i32) -> Result<Aeth, Stop> {
        let expected = format!("ACK of PSN {psn:+}");
        let mut newest = i32::MIN;
        loop {
            let came = self.next(&expected)?;
            match (came.kind(), came.aeth()) {
                (Some(SyndromeKind::Ack { .. }), Some(aeth)) if came.psn == psn => return Ok(aeth),
                (Some(SyndromeKind::Ack { .. }), _) if came.psn < psn && came.psn > newest => {
                    newest = came.psn;
                }
                _ => return unexpected(&expected, &came),
            }
        }
    }

    /// NAK of request `psn`.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn nak(&self, psn: i32, code: NakCode) -> Result<Aeth, Stop> {
        let expected = format!("NAK {} at PSN {psn:+}", code.name());
        let came = self.next(&expected)?;
        match (came.kind(), came.aeth()) {
            (Some(SyndromeKind::Nak(got)), Some(aeth)) if got == code && came.psn == psn => {
                Ok(aeth)
            }
            _ => unexpected(&expected, &came),
        }
    }

    /// RNR NAK of request `psn`; returns its timer code.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn rnr(&self, psn: i32) -> Result<u8, Stop> {
        let expected = format!("RNR NAK at PSN {psn:+}");
        let came = self.next(&expected)?;
        match came.kind() {
            Some(SyndromeKind::Rnr { timer }) if came.psn == psn => Ok(timer),
            _ => unexpected(&expected, &came),
        }
    }

    /// The whole response of `length` bytes to READ `psn`: opcodes, PSNs, sizes, and AETHs by the rules. Returns the
    /// bytes, and the AETH of the last packet.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn read_response(&self, psn: i32, length: usize) -> Result<(Vec<u8>, Aeth), Stop> {
        let last = length.div_ceil(self.mtu()).max(1) - 1;
        let mut bytes = Vec::new();
        let mut aeth = None;
        for index in 0..=last {
            let opcode = positioned(Opcode::RC_READ_RESPONSE_ONLY, position(index, last));
            let came = self.packet_at(opcode, psn + index as i32)?;
            let wanted = (length - bytes.len()).min(self.mtu());
            let payload = came.payload();
            check(payload.len() == wanted, || {
                format!("expected {wanted} bytes in packet {index} of the response, got {came}")
            })?;
            bytes.extend(payload);
            aeth = came.aeth();
        }
        match aeth {
            Some(aeth) => Ok((bytes, aeth)),
            None => fail("the last packet of the response has no AETH"),
        }
    }

    fn packet_at(&self, opcode: Opcode, psn: i32) -> Result<Came, Stop> {
        let expected = format!("{opcode} at PSN {psn:+}");
        let came = self.next(&expected)?;
        let fits = came.opcode() == opcode && came.psn == psn;
        if fits { Ok(came) } else { unexpected(&expected, &came) }
    }

    /// The answer to atomic `psn`: the original value.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn atomic_ack(&self, psn: i32) -> Result<(u64, Aeth), Stop> {
        let expected = format!("ATOMIC ACK at PSN {psn:+}");
        let came = self.next(&expected)?;
        match (came.original(), came.aeth()) {
            (Some(original), Some(aeth)) if came.psn == psn => Ok((original.original, aeth)),
            _ => unexpected(&expected, &came),
        }
    }

    /// It takes requests as before: an empty WRITE at `psn`, the next PSN that it expects, is acknowledged. What came
    /// before has drawn no answer.
    ///
    /// # Errors
    /// It is not.
    pub fn alive(&self, psn: i32) -> Result<Aeth, Stop> {
        let probe = self.probe().psn(psn);
        self.tx(&probe)?;
        let sent = probe.bth.opcode;
        let expected = format!("the answer to {sent} at PSN {psn:+}, which shows that it lives");
        let came = self.next(&expected)?;
        let answer = match sent {
            Opcode::RC_READ_REQUEST => Opcode::RC_READ_RESPONSE_ONLY,
            Opcode::RC_FETCH_ADD => Opcode::RC_ATOMIC_ACKNOWLEDGE,
            _ => Opcode::RC_ACKNOWLEDGE.of_service(self.service()),
        };
        match came.aeth() {
            Some(aeth)
                if matches!(aeth.syndrome.kind(), SyndromeKind::Ack { .. })
                    && (came.opcode(), came.psn) == (answer, psn) =>
            {
                Ok(aeth)
            }
            _ => unexpected(&expected, &came),
        }
    }

    /// What was sent has drawn no answer: silence, then [`alive`](Self::alive) at `psn`.
    ///
    /// # Errors
    /// It has.
    pub fn ignored(&self, psn: i32) -> Result<(), Stop> {
        self.silence()?;
        self.alive(psn).map(drop)
    }

    /// It has failed: it answers nothing, and its state is ERR.
    ///
    /// # Errors
    /// It has not.
    pub fn dead(&self, psn: i32) -> Result<(), Stop> {
        self.tx(&self.probe().psn(psn))?;
        self.silence()?;
        if self.app.unseen("its state") {
            return Ok(());
        }
        match self.app.state()? {
            State::Err => Ok(()),
            state => fail(format!("expected state ERR, it is in {state:?}")),
        }
    }

    /// Request `psn` kills it: one NAK, then nothing, and ERR.
    ///
    /// # Errors
    /// It does not.
    pub fn fatal(&self, psn: i32, code: NakCode) -> Result<(), Stop> {
        self.nak(psn, code)?;
        self.dead(psn)
    }

    /// Its next request must have this opcode (of RC; the service is that of the queue pair) and PSN. Requests before it
    /// may come again.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn request(&self, psn: i32, opcode: Opcode) -> Result<Came, Stop> {
        let wanted = opcode.of_service(self.service());
        let expected = format!("{wanted} at PSN {psn:+}");
        loop {
            let came = self.next(&expected)?;
            if came.opcode() == wanted && came.psn == psn {
                self.newest.set(psn.max(self.newest.get()));
                return Ok(came);
            }
            if came.psn >= psn || came.psn > self.newest.get() {
                return unexpected(&expected, &came);
            }
        }
    }

    /// CNPs that came so far.
    pub fn cnps(&self) -> Result<Vec<Came>, Stop> {
        let seen = self.bench.player.borrow_mut().cnps(self.own_qpn);
        seen.into_iter().map(|seen| self.came(seen)).collect()
    }
}
