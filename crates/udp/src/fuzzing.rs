//! For fuzzers: what other processes of the host say, read as a process reads it.

use uroce_datapath::RxPacket;
use uroce_wire::Slot;

use crate::slot::message::{LONGEST, RedirectMessage, read};

/// Reads the bytes as a message with packets that another process received; one that can be read is made again from its packets.
///
/// # Panics
/// Its parts do not lie inside it, or the second message has other packets.
pub fn read_redirect(bytes: &[u8]) {
    let Some((whole, size)) = read(bytes) else { return };
    assert!(size > 0 && whole.payload.len() < bytes.len());
    if bytes.len() > LONGEST {
        return;
    }
    let to = Slot::new(1).expect("a slot");
    let mut again = RedirectMessage::new();
    let mut packets = whole.payload.chunks(size);
    let is_taken = packets.all(|payload| again.add(to, &RxPacket { payload, ..whole }));
    assert!(is_taken, "packets that came in one message fit into one");
    let (_, bytes, _) = again.sealed().expect("packets");
    let (second, _) = read(bytes).expect("what we write can be read");
    assert_eq!((second.src, second.dst, second.ip_id), (whole.src, whole.dst, whole.ip_id));
    assert_eq!(second.payload, whole.payload);
}
