//! Packets of the model, header by header.

use uroce_wire::{Bth, Header, Opcode, Psn, Qpn};

/// How many PSNs there are.
const PSNS: u64 = 1 << 24;

/// A packet that is being written.
pub(super) struct PacketWriter {
    bth: Bth,
    /// What stands behind the BTH.
    behind: Vec<u8>,
}

impl PacketWriter {
    /// `psn` counts on behind the wrap.
    pub(super) fn new(opcode: Opcode, dest: Qpn, psn: u64) -> PacketWriter {
        let bth = Bth::new(opcode, dest, Psn::new((psn % PSNS) as u32));
        PacketWriter { bth, behind: vec![] }
    }

    /// Asks for an acknowledgement.
    pub(super) fn asking(mut self, asks: bool) -> PacketWriter {
        self.bth.ack_req = asks;
        self
    }

    /// Adds a header.
    pub(super) fn with<H: Header>(mut self, header: &H) -> PacketWriter {
        let at = self.behind.len();
        self.behind.resize(at + H::LEN, 0);
        header.write(&mut self.behind[at..]).expect("there is room");
        self
    }

    /// Adds a header if there is one.
    pub(super) fn with_some<H: Header>(self, header: Option<H>) -> PacketWriter {
        match header {
            Some(header) => self.with(&header),
            None => self,
        }
    }

    /// BTH to pad; the ICRC is missing.
    pub(super) fn payload(mut self, payload: &[u8]) -> Vec<u8> {
        let pad = payload.len().wrapping_neg() % 4;
        self.bth.pad = pad as u8;
        let mut bytes = vec![0; Bth::LEN];
        self.bth.write(&mut bytes).expect("there is room");
        bytes.extend_from_slice(&self.behind);
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len() + pad, 0);
        bytes
    }
}
