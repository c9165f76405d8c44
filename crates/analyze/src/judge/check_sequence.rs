//! Checks of messages that have several packets.

use uroce_wire::{Mtu, OpcodeInfo, Operation, Position};

use super::finding::Ledger;
use super::rules::sequence::{
    LENGTH_ABOVE_MTU, LENGTH_NOT_MTU, OPCODE_SEQUENCE, PSN_WINDOW, WRITE_LENGTH,
};
use super::sight::Sight;

/// PSNs that may be outstanding.
const LARGEST_WINDOW: u64 = (1 << 23) - 1;

/// The request before, if the next one can be told from it.
#[derive(Debug, Clone, Copy)]
struct Previous {
    frame: u64,
    next_psn: u64,
    info: &'static OpcodeInfo,
}

/// A WRITE of several packets, as far as all of them were seen in order.
#[derive(Debug, Clone, Copy)]
struct OpenWrite {
    frame: u64,
    next_psn: u64,
    announced: u64,
    seen: u64,
}

/// What was seen of a flow's messages.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct SequenceSeen {
    previous: Option<Previous>,
    mtu: Option<u32>,
    write: Option<OpenWrite>,
}

impl SequenceSeen {
    /// Payload of its full packets.
    pub(super) const fn mtu(&self) -> Option<u32> {
        self.mtu
    }

    /// Looks at a request, a response, or anything else of a connection.
    pub(super) fn check(&mut self, sight: &Sight<'_>, span: Option<u64>, ledger: &mut Ledger) {
        let Some(info) = sight.connected() else { return };
        if let Some(length) = sight.length() {
            self.check_length(sight, info, length, ledger);
        }
        if info.is_request() {
            self.check_order(sight, info, span, ledger);
            self.check_write(sight, info, ledger);
            check_window(sight, ledger);
        }
    }

    fn check_length(
        &mut self,
        sight: &Sight<'_>,
        info: &OpcodeInfo,
        length: u32,
        ledger: &mut Ledger,
    ) {
        let is_full = matches!(info.position, Position::First | Position::Middle);
        match self.mtu {
            None if is_full => self.learn_mtu(sight, info, length, ledger),
            Some(mtu) if is_full && length != mtu => {
                sight.breaks(&LENGTH_NOT_MTU, ledger, || not_mtu(info, length, mtu));
            }
            Some(mtu) if length > mtu => sight.breaks(&LENGTH_ABOVE_MTU, ledger, || {
                format!("{} with {length} bytes, other full packets have {mtu}", info.name)
            }),
            _ => {}
        }
    }

    fn learn_mtu(
        &mut self,
        sight: &Sight<'_>,
        info: &OpcodeInfo,
        length: u32,
        ledger: &mut Ledger,
    ) {
        let is_mtu = usize::try_from(length).ok().and_then(Mtu::from_bytes).is_some();
        if is_mtu {
            self.mtu = Some(length);
        } else {
            sight.breaks(&LENGTH_NOT_MTU, ledger, || {
                format!("{} with {length} bytes, which is no path MTU", info.name)
            });
        }
    }

    fn check_order(
        &mut self,
        sight: &Sight<'_>,
        info: &'static OpcodeInfo,
        span: Option<u64>,
        ledger: &mut Ledger,
    ) {
        let before = self.previous.filter(|previous| previous.next_psn == sight.psn);
        if let Some(before) = before.filter(|before| !may_follow(before.info, info)) {
            sight.breaks(&OPCODE_SEQUENCE, ledger, || {
                format!("{} behind {} of frame {}", info.name, before.info.name, before.frame)
            });
        }
        self.previous = span.map(|span| Previous {
            frame: sight.packet.frame,
            next_psn: sight.psn.saturating_add(span),
            info,
        });
    }

    fn check_write(&mut self, sight: &Sight<'_>, info: &OpcodeInfo, ledger: &mut Ledger) {
        if info.operation != Operation::Write {
            return;
        }
        let Some(length) = sight.length().map(u64::from) else {
            self.write = None;
            return;
        };
        let begun = sight.packet.reth.map(|reth| OpenWrite {
            frame: sight.packet.frame,
            next_psn: sight.psn,
            announced: reth.length.into(),
            seen: 0,
        });
        let open = if info.starts() { begun } else { self.write };
        self.write = open.filter(|open| open.next_psn == sight.psn).map(|open| OpenWrite {
            next_psn: open.next_psn.saturating_add(1),
            seen: open.seen.saturating_add(length),
            ..open
        });
        if info.ends()
            && let Some(write) = self.write.take()
            && write.seen != write.announced
        {
            sight.breaks(&WRITE_LENGTH, ledger, || {
                let OpenWrite { frame, announced, seen, .. } = write;
                format!("the WRITE of frame {frame} has {seen} bytes, announced are {announced}")
            });
        }
    }
}

fn not_mtu(info: &OpcodeInfo, length: u32, mtu: u32) -> String {
    let aeth = if info.operation == Operation::ReadResponse && length.abs_diff(mtu) == 4 {
        "; an AETH too many or too few explains the 4 bytes"
    } else {
        ""
    };
    format!("{} with {length} bytes, other full packets have {mtu}{aeth}", info.name)
}

fn may_follow(before: &OpcodeInfo, info: &OpcodeInfo) -> bool {
    if before.ends() {
        return info.starts();
    }
    !info.starts() && before.operation == info.operation && before.service == info.service
}

fn check_window(sight: &Sight<'_>, ledger: &mut Ledger) {
    // Without answers nothing tells what is still under way.
    if sight.outstanding > LARGEST_WINDOW && sight.peer.is_some() {
        let text = || format!("{} PSNs outstanding", sight.outstanding);
        sight.breaks(&PSN_WINDOW, ledger, text);
    }
}
