//! What happens when the kernel refuses, played with a scripted kernel.

use uroce_datapath::{GsoLimit, Route};

use super::*;

const PORTS: [u16; 2] = [0xC001, 0xC002];

fn sender(packets: u8) -> Sender {
    let single = GsoLimit { packets: 1, ..GsoLimit::NONE };
    let mut sender = Sender::new(Burst::new(64, single), 0);
    (0..packets).for_each(|n| commit(&mut sender, n));
    sender
}

fn commit(sender: &mut Sender, n: u8) {
    let port = PORTS[usize::from(n / 4) % PORTS.len()];
    let src = std::net::SocketAddr::from(([10, 0, 0, 1], port));
    let dst = std::net::SocketAddr::from(([10, 0, 0, 2], 4791));
    let route = Route { src, dst, hop_limit: 64, traffic_class: 0 };
    sender.space().expect("room")[..100].fill(n);
    sender.commit(&route, 100, &mut |_, _| {});
}

/// Takes what the script says, one entry for each call; afterwards everything.
struct Scripted {
    answers: Vec<Result<usize, Errno>>,
    taken: Vec<u8>,
}

impl Scripted {
    fn new(answers: &[Result<usize, Errno>]) -> Self {
        Self { answers: answers.iter().rev().copied().collect(), taken: Vec::new() }
    }

    fn flush(&mut self, sender: &mut Sender, stats: &mut DatapathStats) -> io::Result<Flush> {
        sender.flush_to(stats, &mut |port, messages| {
            let most = self.answers.pop().unwrap_or(Ok(usize::MAX))?;
            let before = self.taken.len();
            for message in messages.take(most) {
                let n = message.payload[0];
                assert_eq!(message.payload, [n; 100]);
                assert_eq!(PORTS[usize::from(n / 4) % PORTS.len()], port);
                self.taken.push(n);
            }
            Ok(self.taken.len() - before)
        })
    }
}

#[test]
fn b13_what_a_full_kernel_refuses_is_sent_later_unchanged() {
    for errno in [Errno::AGAIN, Errno::NOBUFS] {
        let mut sender = sender(20);
        let mut stats = DatapathStats::default();
        let mut kernel = Scripted::new(&[Ok(2), Err(errno), Err(errno)]);
        let first = kernel.flush(&mut sender, &mut stats).expect("flush");
        assert_eq!(first, Flush { sent: 2, dropped: 0, blocked: true });
        let second = kernel.flush(&mut sender, &mut stats).expect("flush");
        assert_eq!(second, Flush { sent: 0, dropped: 0, blocked: true });
        (20..30).for_each(|n| commit(&mut sender, n));
        let third = kernel.flush(&mut sender, &mut stats).expect("flush");
        assert_eq!(third, Flush { sent: 28, dropped: 0, blocked: false });
        assert_eq!(kernel.taken, (0..30).collect::<Vec<u8>>());
        assert_eq!((stats.tx_packets, stats.tx_bytes, stats.blocked), (30, 3000, 2));
        assert!(sender.burst.is_empty());
    }
}

#[test]
fn a_packet_above_the_path_mtu_is_dropped_alone_and_explained() {
    let mut sender = sender(8);
    let mut stats = DatapathStats::default();
    let mut kernel = Scripted::new(&[Ok(3), Err(Errno::MSGSIZE)]);
    let flush = kernel.flush(&mut sender, &mut stats).expect("flush");
    assert_eq!(flush, Flush { sent: 7, dropped: 1, blocked: false });
    assert_eq!(kernel.taken, [0, 1, 2, 4, 5, 6, 7]);
    let text = sender.problem.expect("a reason").to_string();
    assert!(text.contains("10.0.0.2") && text.contains("MTU of the path"), "{text}");
}

#[test]
fn a28_an_icmp_message_costs_no_packet() {
    let mut sender = sender(8);
    let mut stats = DatapathStats::default();
    let mut kernel = Scripted::new(&[Err(Errno::CONNREFUSED), Ok(2), Err(Errno::CONNREFUSED)]);
    let flush = kernel.flush(&mut sender, &mut stats).expect("flush");
    assert_eq!(flush, Flush { sent: 8, dropped: 0, blocked: false });
    assert_eq!(kernel.taken, (0..8).collect::<Vec<u8>>());
    assert_eq!(stats.soft_errors, 2);
}

#[test]
fn endless_soft_errors_end_the_flush() {
    let mut sender = sender(3);
    let mut stats = DatapathStats::default();
    let mut kernel = Scripted::new(&[Err(Errno::CONNREFUSED); 6]);
    let flush = kernel.flush(&mut sender, &mut stats).expect("flush");
    assert_eq!(flush, Flush { sent: 0, dropped: 3, blocked: false });
    assert_eq!(stats.tx_dropped, 3);
}

#[test]
fn a_broken_socket_is_an_error_and_keeps_the_packets() {
    let mut sender = sender(3);
    let mut stats = DatapathStats::default();
    let mut kernel = Scripted::new(&[Err(Errno::BADF)]);
    assert!(kernel.flush(&mut sender, &mut stats).is_err());
    assert_eq!(kernel.flush(&mut sender, &mut stats).expect("flush").sent, 3);
}

/// Two batches of four packets.
fn batches() -> Sender {
    let mut sender = Sender::new(Burst::new(64, GsoLimit::NONE), 0);
    (0..8).for_each(|n| commit(&mut sender, n));
    sender
}

#[test]
fn a_train_is_one_message_that_the_kernel_shall_cut() {
    let mut sender = batches();
    let mut stats = DatapathStats::default();
    let mut seen = Vec::new();
    let flush = sender.flush_to(&mut stats, &mut |_, messages| {
        let message = messages.next().expect("a batch");
        let size = message.control.windows(2).any(|pair| pair == 100u16.to_ne_bytes());
        seen.push((message.payload.len(), size));
        Ok(1)
    });
    assert_eq!(flush.expect("flush"), Flush { sent: 8, dropped: 0, blocked: false });
    assert_eq!(seen, [(400, true), (400, true)]);
    assert_eq!((stats.tx_packets, stats.tx_bytes, stats.syscalls), (8, 800, 2));
}

#[test]
fn without_segmentation_packets_travel_singly_from_the_first_refusal_on() {
    let mut sender = batches();
    let mut stats = DatapathStats::default();
    let flush = sender.flush_to(&mut stats, &mut |_, messages| {
        let message = messages.next().expect("a batch");
        if message.payload.len() > 100 { Err(Errno::IO.into()) } else { Ok(1) }
    });
    assert_eq!(flush.expect("flush"), Flush { sent: 2, dropped: 6, blocked: false });
    assert_eq!((stats.tx_packets, stats.tx_dropped), (2, 6));
    let text = sender.problem.expect("a reason").to_string();
    assert!(text.contains("one by one"), "{text}");
    (0..8).for_each(|n| commit(&mut sender, n));
    let flush = sender.flush_to(&mut stats, &mut |_, messages| Ok(messages.count()));
    assert_eq!(flush.expect("flush"), Flush { sent: 8, dropped: 0, blocked: false });
}

#[test]
fn a_train_of_packets_above_the_path_mtu_is_dropped_whole_and_explained() {
    let mut sender = batches();
    let mut stats = DatapathStats::default();
    let mut answers = [Errno::INVAL, Errno::MSGSIZE].into_iter();
    let flush = sender.flush_to(&mut stats, &mut |_, _| match answers.next() {
        Some(errno) => Err(errno.into()),
        None => Ok(1),
    });
    assert_eq!(flush.expect("flush"), Flush { sent: 4, dropped: 4, blocked: false });
    let text = sender.problem.expect("a reason").to_string();
    assert!(text.contains("MTU of the path"), "{text}");
}

/// A firewall with a limit, a full table of connections, a route that is away for a moment.
#[test]
fn a_refusal_that_passes_does_not_end_segmentation() {
    for errno in [Errno::PERM, Errno::NETUNREACH] {
        let mut sender = batches();
        let mut stats = DatapathStats::default();
        let mut refusals = [errno].into_iter();
        let flush = sender.flush_to(&mut stats, &mut |_, _| match refusals.next() {
            Some(errno) => Err(errno.into()),
            None => Ok(1),
        });
        assert_eq!(flush.expect("flush"), Flush { sent: 4, dropped: 4, blocked: false });
        let text = sender.problem.expect("a reason").to_string();
        assert!(!text.contains("one by one"), "{text}");
        (0..8).for_each(|n| commit(&mut sender, n));
        let mut lengths = vec![];
        let flush = sender.flush_to(&mut stats, &mut |_, messages| {
            lengths.extend(messages.map(|message| message.payload.len()));
            Ok(1)
        });
        assert_eq!(flush.expect("flush").sent, 8);
        assert_eq!(lengths, [400, 400], "{errno}: in batches");
    }
}
