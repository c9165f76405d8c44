//! The model alone: two of its nodes with a network of one queue, in which packets can be lost.

use uroce_device::memory::{Lkey, Region, Rkey, Sge};
use uroce_device::transport::{RecvWr, SendData, SendFlags, SendOp, SendWr, Wc, WcStatus};

use super::*;

const BASE: u64 = 0x1_0000;
const KEY: u32 = 0x77;

struct TwoModels {
    nodes: [RxeNode; 2],
    qpns: [Qpn; 2],
    memories: [RxeMemory; 2],
    now_ns: u64,
    /// Packets that were sent so far.
    sent: usize,
}

fn memory() -> RxeMemory {
    let region = Region::alloc(8192).expect("memory");
    RxeMemory { region, base: BASE, key: KEY }
}

impl TwoModels {
    fn new() -> TwoModels {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let memories = [memory(), memory()];
        let mut nodes = [RxeNode::new(address(1)), RxeNode::new(address(2))];
        let qpns = [0, 1].map(|index| nodes[index].create_qp(memories[index].clone()));
        for index in 0..2 {
            let link = RxeLink {
                peer: nodes[1 - index].address(),
                dest: qpns[1 - index],
                mtu: 256,
                timeout_ns: Some(1_000_000),
                retry_cnt: 3,
                rnr_retry: 7,
                min_rnr_timer: 1,
                rd_atomic: 2,
                signal_all: true,
            };
            nodes[index].connect(qpns[index], link, [0xff_fffe, 0xff_fffe]);
        }
        TwoModels { nodes, qpns, memories, now_ns: 0, sent: 0 }
    }

    fn post(&mut self, wr_id: u64, op: SendOp, length: u32) {
        let sges = [Sge { addr: BASE, length, lkey: Lkey(KEY) }];
        let wr = SendWr {
            wr_id,
            op,
            flags: SendFlags::SIGNALED,
            data: SendData::Sges(&sges),
            ud: None,
            srqn: None,
        };
        assert!(self.nodes[0].post_send(self.qpns[0], &wr));
    }

    /// Runs until nothing happens any more. Packets with these numbers are lost.
    fn run(&mut self, lost: &[usize]) {
        for _ in 0..1_000 {
            let mut is_idle = true;
            for from in 0..2 {
                self.nodes[from].drive(self.now_ns);
                let mut packets = VecDeque::new();
                packets.extend(self.nodes[from].take_sent());
                for packet in packets {
                    is_idle = false;
                    if !lost.contains(&self.sent) {
                        self.nodes[1 - from].handle_packet(self.now_ns, &packet);
                    }
                    self.sent += 1;
                }
            }
            if is_idle {
                let timeouts = self.nodes.iter().filter_map(RxeNode::poll_timeout);
                let Some(next_ns) = timeouts.min() else { return };
                self.now_ns = next_ns;
            }
        }
        panic!("it does not come to an end");
    }

    fn statuses(&mut self) -> Vec<(u64, WcStatus)> {
        let completions = self.nodes[0].poll(self.qpns[0], true);
        completions.iter().map(|wc: &Wc| (wc.wr_id, wc.status)).collect()
    }

    fn write(&mut self, wr_id: u64, length: u32) {
        self.post(wr_id, SendOp::Write { va: BASE, rkey: Rkey(KEY) }, length);
    }
}

#[test]
fn a_message_arrives_over_the_wrap_of_psns_whatever_packet_is_lost() {
    for lost in 0..12 {
        let mut models = TwoModels::new();
        let bytes: Vec<u8> = (0..1000u32).map(|at| (at % 251) as u8).collect();
        models.memories[0].region.write(0, &bytes).expect("inside");
        models.write(1, 1000);
        models.write(2, 300);
        models.run(&[lost]);
        assert_eq!(models.statuses(), [(1, WcStatus::Success), (2, WcStatus::Success)], "{lost}");
        let mut arrived = vec![0; 1000];
        models.memories[1].region.read(0, &mut arrived).expect("inside");
        assert_eq!(arrived, bytes, "{lost}");
    }
}

#[test]
fn a_read_resumes_behind_what_has_arrived() {
    for lost in 0..6 {
        let mut models = TwoModels::new();
        models.memories[1].region.fill(0, 1000, 7).expect("inside");
        models.post(1, SendOp::Read { va: BASE, rkey: Rkey(KEY) }, 1000);
        models.run(&[lost]);
        assert_eq!(models.statuses(), [(1, WcStatus::Success)], "{lost}");
        assert_eq!(models.memories[0].gather(&[whole(1000)], 0, 1000), Some(vec![7; 1000]));
    }
}

/// A READ of bytes that another READ has, too: a repeated request for it is told from one for a part of the other by its PSN.
#[test]
fn a_duplicate_read_is_that_of_its_psn_also_where_ranges_overlap() {
    for lost in 0..10 {
        let mut models = TwoModels::new();
        models.memories[1].region.fill(0, 1000, 7).expect("inside");
        models.post(1, SendOp::Read { va: BASE, rkey: Rkey(KEY) }, 1000);
        models.post(2, SendOp::Read { va: BASE + 900, rkey: Rkey(KEY) }, 8);
        models.run(&[lost, lost + 2]);
        assert_eq!(models.statuses(), [(1, WcStatus::Success), (2, WcStatus::Success)], "{lost}");
    }
}

fn whole(length: u32) -> Sge {
    Sge { addr: BASE, length, lkey: Lkey(KEY) }
}

#[test]
fn an_atomic_whose_answer_is_lost_is_executed_once() {
    let mut models = TwoModels::new();
    models.post(1, SendOp::FetchAdd { va: BASE, rkey: Rkey(KEY), add: 5 }, 8);
    models.run(&[1]);
    assert_eq!(models.statuses(), [(1, WcStatus::Success)]);
    assert_eq!(models.memories[1].region.load_u64(0), Ok(5));
    assert_eq!(models.nodes[1].counters.duplicates, 1);
}

#[test]
fn a_packet_behind_an_rnr_nak_draws_a_nak() {
    let mut models = TwoModels::new();
    models.post(1, SendOp::Send, 300);
    models.nodes[0].drive(0);
    let mut packets = VecDeque::new();
    packets.extend(models.nodes[0].take_sent());
    assert_eq!(packets.len(), 2);
    for packet in packets {
        models.nodes[1].handle_packet(0, &packet);
    }
    let RxeCounters { rnr_naks_sent, naks_sent, .. } = models.nodes[1].counters;
    assert_eq!((rnr_naks_sent, naks_sent), (1, 1));
    let receive = [whole(400)];
    assert!(models.nodes[1].post_recv(models.qpns[1], &RecvWr::new(9, &receive)));
    models.run(&[]);
    assert_eq!(models.statuses(), [(1, WcStatus::Success)]);
    let received = models.nodes[1].poll(models.qpns[1], false);
    assert_eq!((received.len(), received[0].wr_id, received[0].byte_len), (1, 9, 300));
    // The NAK came while the wait after the RNR NAK was on.
    assert_eq!(models.nodes[0].counters.naks_taken, 0);
}

#[test]
fn retries_run_out_and_everything_behind_is_flushed() {
    let mut models = TwoModels::new();
    models.write(1, 10);
    models.write(2, 10);
    let all: Vec<usize> = (0..100).collect();
    models.run(&all);
    assert_eq!(models.statuses(), [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(models.sent, 8, "two requests, and three retries of both");
}

#[test]
fn a_wrong_key_ends_the_connection_at_both_ends() {
    let mut models = TwoModels::new();
    models.post(1, SendOp::Write { va: BASE, rkey: Rkey(KEY + 1) }, 10);
    models.run(&[]);
    assert_eq!(models.statuses(), [(1, WcStatus::RemAccessErr)]);
    let receive = [whole(10)];
    assert!(models.nodes[1].post_recv(models.qpns[1], &RecvWr::new(4, &receive)));
    let flushed = models.nodes[1].poll(models.qpns[1], false);
    assert_eq!(flushed[0].status, WcStatus::WrFlushErr);
}
