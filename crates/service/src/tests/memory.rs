//! Clients that write to the shared memory what none should, while others talk to each other.

use super::*;
use crate::client::testing::{Attachment, attach};
use crate::control::ControlSocket;
use crate::head::{HEAD, HeadBytes, MAX_PAYLOAD, SentHead};
use crate::message::ClientMessage;
use crate::ring::{ARRIVED, SENT};

/// Where the length of a payload stands in a head.
const LEN: usize = 4;

fn head(len: usize) -> HeadBytes {
    let (dst, src_port, hop_limit) = (addr(HERE).ip(), 4791, 64);
    let (traffic_class, starts_batch, sealed) = (0, false, false);
    SentHead { dst, src_port, hop_limit, traffic_class, starts_batch, sealed, len }.encode()
}

fn wake(control: &ControlSocket) {
    control.send(&ClientMessage::Wake.encode()).ok();
}

/// Waits until the service has put the client out.
fn await_end(client: &Attachment) {
    let end = Instant::now() + Duration::from_secs(20);
    while client.control.receive().is_ok() {
        assert!(Instant::now() < end, "it still has its place");
        wake(&client.control);
        std::thread::yield_now();
    }
}

/// Two sound clients, which hear each other whatever others do.
struct Couple(ServedDatapath, ServedDatapath);

impl Couple {
    fn join(running: &Running) -> Self {
        Self(running.client(), running.client())
    }

    fn talk(&mut self, opcode: u8) {
        let bytes = packet(opcode, slot(&mut self.1).qpn(1), b"beside all that");
        send(&mut self.0, HERE, &bytes);
        assert_eq!(receive(&mut self.1, 1), [bytes]);
    }
}

#[test]
fn a_length_that_cannot_be_costs_the_place() {
    let running = Running::start();
    let mut couple = Couple::join(&running);
    for len in [0u16, 1, 15, MAX_PAYLOAD as u16 + 1, 0x8000, u16::MAX] {
        let client = attach(&running.socket(), addr(HERE));
        let mut bytes = head(16);
        bytes[LEN..LEN + 2].copy_from_slice(&len.to_ne_bytes());
        client.memory.write(SENT.first_byte(), &bytes);
        client.memory.store(SENT.sent_word(), 64 * 1024);
        await_end(&client);
        couple.talk(RC_SEND);
    }
}

/// The payload would lie behind what the client has announced.
#[test]
fn a_length_beyond_the_index_costs_the_place() {
    let running = Running::start();
    let mut couple = Couple::join(&running);
    for (len, announced) in [(16, HEAD), (65, 2 * HEAD), (MAX_PAYLOAD, MAX_PAYLOAD / HEAD * HEAD)] {
        let client = attach(&running.socket(), addr(HERE));
        client.memory.write(SENT.first_byte(), &head(len));
        client.memory.store(SENT.sent_word(), announced as u32);
        await_end(&client);
        couple.talk(RC_SEND);
    }
}

/// Length and kind of the head change all the time while the service reads it.
#[test]
fn a_head_that_changes_while_it_is_read_harms_nobody_else() {
    let running = Running::start();
    let mut couple = Couple::join(&running);
    for round in 0..20u32 {
        let client = attach(&running.socket(), addr(HERE));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                let mut sent = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let at = SENT.first_byte() + sent as usize % (512 * 1024);
                    client.memory.write(at, &head(16));
                    sent = sent.wrapping_add(2 * HEAD as u32);
                    client.memory.store(SENT.sent_word(), sent);
                    for len in [MAX_PAYLOAD as u16, u16::MAX, 17 + round as u16, 0] {
                        client.memory.write(at + LEN, &len.to_ne_bytes());
                    }
                    wake(&client.control);
                }
            });
            (0..20).for_each(|_| couple.talk(RC_SEND));
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// It says that it has taken what never was there, and less than it had taken before.
#[test]
fn a_receiver_that_lies_about_what_it_took_loses_its_own_packets_only() {
    let running = Running::start();
    let mut couple = Couple::join(&running);
    let liar = attach(&running.socket(), addr(HERE));
    let bytes = packet(RC_SEND, liar.slot.qpn(1), &[1; 4000]);
    for taken in [1, 64, 4 * 1024 * 1024, u32::MAX, 0x8000_0000, 0] {
        liar.memory.store(ARRIVED.taken_word(), taken);
        for _ in 0..50 {
            send(&mut couple.0, HERE, &bytes);
            couple.talk(RC_SEND);
        }
    }
}

/// RC, UC, RD, CNP and XRC: whose a packet is does not depend on its kind.
#[test]
fn packets_of_all_connected_kinds_find_their_queue_pair() {
    let running = Running::start();
    let mut couple = Couple::join(&running);
    for class in [0b000u8, 0b001, 0b010, 0b100, 0b101] {
        for operation in [0x00, 0x04, 0x0a, 0x11] {
            couple.talk(class << 5 | operation);
        }
    }
}
