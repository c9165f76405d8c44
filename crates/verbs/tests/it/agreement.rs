//! What the analysis says of our own traffic: nothing where nothing is lost, and the same at both ends
//! where packets are lost. The devices record what they send and receive; packets travel through the
//! switch of this process, so that which packets are lost follows from a seed alone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use uroce_analyze::CaptureReader;
use uroce_analyze::judge::Severity;
use uroce_analyze::report::{Analysis, AnalysisConfig, FlowRow, Report, Seen};
use uroce_analyze::track::RetransmissionCause::Unexplained as UNEXPLAINED;
use uroce_verbs::*;

use crate::common::{COMPLETION_TIMEOUT, MR_LEN, Net, QKEY, Side, connect};

/// A run in which a busy machine made a requester impatient is made again, so often at most.
const ATTEMPTS: usize = 20;

/// Findings that a machine with much else to do earns: packets and receives come late.
const SLOW: [&str; 2] = ["timeout-storm", "rnr-loop"];

/// A capture of one device; the file is removed at the end.
struct Recorded {
    path: PathBuf,
    file: PcapFile,
}

impl Recorded {
    fn new(name: &str) -> Self {
        let name = format!("uroce-agreement-{}-{name}.pcapng", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = PcapFile::create(&path).expect("a temporary folder");
        Self { path, file }
    }

    fn open(&self, net: &Net, rules: Option<&str>) -> Context {
        let builder = net.builder().pcap(self.file.clone()).progress_thread(false);
        let faults = rules.map(|rules| {
            Faults::new(rules.parse().expect("rules"), Some(7)).expect("a seed is given")
        });
        let builder = match faults {
            Some(faults) => builder.fault(faults),
            None => builder,
        };
        builder.open().expect("the device opens")
    }

    /// The whole capture, as `uroce analyze` reads it; `look` sees each packet with the comment of its
    /// frame.
    fn analysed(&self, look: &mut dyn FnMut(&Seen<'_>, &str)) -> Report {
        self.analysed_if(|_| true, look)
    }

    /// Without packets that a rule dropped: what the wire had.
    fn of_the_wire(&self) -> Report {
        self.analysed_if(|comment| !comment.contains("dropped by rule"), &mut |_, _| {})
    }

    fn analysed_if(
        &self,
        is_taken: impl Fn(&str) -> bool,
        look: &mut dyn FnMut(&Seen<'_>, &str),
    ) -> Report {
        self.file.flush().expect("written");
        let bytes = std::fs::read(&self.path).expect("it is there");
        let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
        let mut analysis = Analysis::new(AnalysisConfig::default());
        while let Some(frame) = reader.next_frame().expect("whole") {
            if is_taken(frame.comment) {
                analysis.handle_frame(&frame, &mut |seen| look(&seen, frame.comment));
            }
        }
        analysis.finish("recorded")
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Runs `traffic` until nothing was sent again in it: then neither end has a finding.
fn is_clean(name: &str, qp_type: QpType, traffic: impl Fn(&Side, &Side)) {
    for _ in 0..ATTEMPTS {
        let net = Net::fabric();
        let recorded = ["a", "b"].map(|end| Recorded::new(&format!("{name}-{end}")));
        let [a, b] = [0, 1].map(|end| Side::of(recorded[end].open(&net, None), qp_type));
        traffic(&a, &b);
        if [&a, &b].iter().any(|side| side.counter("retransmitted_pkts") > 0) {
            continue;
        }
        for capture in &recorded {
            let report = capture.analysed(&mut |_, _| {});
            let found: Vec<_> = report.findings.iter().map(|row| (row.rule, &row.text)).collect();
            assert!(found.is_empty(), "{name}: {found:?}");
            let failure = report.conversations.iter().find_map(|row| row.failure.as_ref());
            assert_eq!(failure, None, "{name}");
            assert!(report.capture.rocev2_packets > 0, "{name}: nothing was recorded");
        }
        return;
    }
    panic!("{name}: something was sent again in each of {ATTEMPTS} runs");
}

fn connected(a: &Side, b: &Side) {
    connect(&a.qp, &b.qp, &ConnectOptions { mtu: Some(Mtu::M256), ..ConnectOptions::default() });
}

/// Calls `look` until it finds something, and lets both devices work meanwhile: they have no thread of their own, so that
/// no busy machine makes one of them late.
fn wait_for<T>(a: &Side, b: &Side, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + COMPLETION_TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        a.context.drive();
        b.context.drive();
        assert!(Instant::now() < end, "nothing in time");
    }
}

/// Waits for a success at `side`.
fn done(side: &Side, peer: &Side) {
    wait_for(side, peer, || side.cq.poll_one()).result().expect("success");
}

/// Waits for a success at each side.
fn both_done(a: &Side, b: &Side) {
    done(a, b);
    done(b, a);
}

#[test]
fn sends_without_loss_have_no_finding() {
    is_clean("send", QpType::Rc, |a, b| {
        connected(a, b);
        for length in [0, 1, 256, 5000] {
            b.recv(1, 0..8192);
            a.send(SendWr::send(2, &[a.mr.sge(..length)]).signaled());
            both_done(a, b);
        }
    });
}

#[test]
fn writes_without_loss_have_no_finding() {
    is_clean("write", QpType::Rc, |a, b| {
        connected(a, b);
        for length in [0, 1, 256, 5000] {
            a.send(SendWr::write(2, &[a.mr.sge(..length)], b.mr.remote()).signaled());
            done(a, b);
        }
    });
}

#[test]
fn reads_without_loss_have_no_finding() {
    is_clean("read", QpType::Rc, |a, b| {
        connected(a, b);
        for length in [1, 256, 257, 5000] {
            a.send(SendWr::read(2, &[a.mr.sge(..length)], b.mr.remote()).signaled());
            done(a, b);
        }
    });
}

#[test]
fn atomics_without_loss_have_no_finding() {
    is_clean("atomic", QpType::Rc, |a, b| {
        connected(a, b);
        for add in 0..10 {
            a.send(SendWr::fetch_add(2, &[a.mr.sge(..8)], b.mr.remote(), add).signaled());
            done(a, b);
        }
    });
}

#[test]
fn datagrams_without_loss_have_no_finding() {
    is_clean("datagram", QpType::Ud, |a, b| {
        a.qp.activate(QKEY).expect("RTS");
        b.qp.activate(QKEY).expect("RTS");
        let ah = a.pd.create_ah(&b.qp.endpoint()).expect("an AH");
        for length in [0, 1, 1000] {
            b.recv(1, 0..2000);
            let sges = [a.mr.sge(..length)];
            a.send(SendWr::send(2, &sges).to(&ah, b.qp.qpn(), QKEY).signaled());
            both_done(a, b);
        }
    });
}

#[test]
fn a_connection_by_rdma_cm_has_no_finding() {
    is_clean("cm", QpType::Rc, |a, b| {
        let [of_a, of_b] = [a, b].map(|side| side.context.create_event_channel().expect("one"));
        let event = |channel: &EventChannel| {
            wait_for(a, b, || channel.next_event(Some(Duration::ZERO)).expect("poll"))
        };
        let listener = of_b.create_id(PortSpace::Tcp);
        let address = listener.listen(0, 4).expect("a port");
        let id = of_a.create_id(PortSpace::Tcp);
        id.resolve_addr(address).expect("our IP version");
        assert_eq!(event(&of_a).kind, CmEventKind::AddrResolved);
        id.resolve_route().expect("an address");
        assert_eq!(event(&of_a).kind, CmEventKind::RouteResolved);
        id.connect(&a.qp, &ConnParam::default()).expect("a call");
        let request = event(&of_b);
        request.id.accept(&b.qp, &ConnParam::default()).expect("accepted");
        for channel in [&of_a, &of_b] {
            assert!(matches!(event(channel).kind, CmEventKind::Established { .. }));
        }
        b.recv(1, 0..8192);
        a.send(SendWr::send(2, &[a.mr.sge(..5000)]).signaled());
        both_done(a, b);
        id.disconnect().expect("it stands");
        for channel in [&of_a, &of_b] {
            assert!(matches!(event(channel).kind, CmEventKind::Disconnected { .. }));
        }
        assert_eq!(event(&of_a).kind, CmEventKind::TimewaitExit);
    });
}

/// Messages of several packets, some of which come before their receive is posted.
fn exchange(a: &Side, b: &Side) {
    connected(a, b);
    for round in 0..60 {
        let is_late = round % 20 == 7;
        let refused = b.counter("send_rnr_err");
        if !is_late {
            b.recv(1, 0..8192);
        }
        a.send(SendWr::send(2, &[a.mr.sge(..4000)]).signaled());
        if is_late {
            wait_for(a, b, || (b.counter("send_rnr_err") > refused).then_some(()));
            b.recv(1, 0..8192);
        }
        both_done(a, b);
        a.send(SendWr::write(3, &[a.mr.sge(..4000)], b.mr.remote()).signaled());
        done(a, b);
        a.send(
            SendWr::read(4, &[a.mr.sge(MR_LEN / 2..MR_LEN / 2 + 4000)], b.mr.remote()).signaled(),
        );
        done(a, b);
    }
}

/// The requests of the side that asks, and the answers to them.
fn flows(report: &Report) -> [&FlowRow; 2] {
    let [conversation] = &report.conversations[..] else {
        panic!("one conversation, not {}", report.conversations.len());
    };
    let [requests, answers] = &conversation.flows[..] else { panic!("two directions") };
    [requests, answers]
}

/// Packets that were sent again. One that waited together with its first transmission looks like a copy made by the
/// network; so does one whose ACK was recorded while it was being sent.
fn sent_again(flow: &FlowRow) -> u64 {
    flow.figures.retransmitted() + flow.figures.duplicates
}

/// What both ends must agree on: messages, new payload, repetitions, NAKs, RNR NAKs. A packet that a timeout sends
/// again while the NAK for it is on its way looks like one that came late to whoever has not seen the NAK.
fn agreed(flows: [&FlowRow; 2]) -> Vec<[u64; 7]> {
    let flows = flows.iter();
    flows
        .map(|flow| {
            let figures = &flow.figures;
            [
                figures.requests,
                figures.messages,
                figures.messages_completed,
                figures.goodput_bytes,
                sent_again(flow) + figures.reordered,
                figures.nak_total,
                figures.rnr_naks,
            ]
        })
        .collect()
}

fn unexplained(report: &Report) -> u64 {
    let sent_again = report.conversations.iter().flat_map(|row| &row.flows);
    let of_flow = |flow: &FlowRow| flow.figures.retransmissions[UNEXPLAINED.index()].packets;
    sent_again.map(of_flow).sum()
}

#[test]
fn both_ends_tell_the_same_of_a_run_with_losses() {
    let net = Net::fabric();
    let recorded = ["loss-a", "loss-b"].map(Recorded::new);
    // What leaves is lost behind the one capture and before the other one.
    let rules = Some("tx drop 1%");
    let [a, b] = [0, 1].map(|end| Side::of(recorded[end].open(&net, rules), QpType::Rc));
    exchange(&a, &b);
    let on_wire = [0, 1].map(|end| recorded[end].of_the_wire());
    let [at_a, at_b] = [0, 1].map(|end| agreed(flows(&on_wire[end])));
    assert_eq!(at_a, at_b);
    assert_eq!(at_a[0][2], 180, "messages");
    assert!(at_a[0][4] > 0 && at_a[1][5] > 0 && at_a[1][6] > 0, "nothing happened: {at_a:?}");
    for report in &on_wire {
        assert_eq!(unexplained(report), 0);
        let grave = report.findings.iter().filter(|row| row.severity > Severity::Note);
        let mut grave = grave.filter(|row| !SLOW.contains(&row.rule));
        let bad = grave.next();
        assert!(bad.is_none(), "{bad:?}");
    }
    let mut told = [0; 2];
    let sender = a.context.address();
    let at_sender = recorded[0].analysed(&mut |seen, comment| {
        let is_told = comment.contains("retransmission: ");
        let is_seen = seen.annotation.retransmission.is_some() || seen.annotation.is_duplicate;
        if seen.packet.source_ip() == sender {
            told[usize::from(is_told == is_seen)] += 1;
        }
    });
    let repeated = sent_again(flows(&at_sender)[0]);
    assert_eq!(repeated, a.counter("retransmitted_pkts"), "what the device itself counted");
    assert_eq!(told[0], 0, "repetitions that only one of device and analysis knows");
    let at_receiver = recorded[1].analysed(&mut |_, _| {});
    // Rarely a NAK asks for what is on its way.
    let lost = |report: &Report| {
        let figures = &flows(report)[0].figures;
        assert_eq!(figures.lost_by_capture, 0);
        (figures.lost_before, figures.lost_behind)
    };
    let ((before, behind), (arrived_before, arrived_behind)) =
        (lost(&at_sender), lost(&at_receiver));
    assert_eq!(before, 0, "a sender sees all that it sends");
    assert!(behind > 5 && arrived_before > 5, "{behind} and {arrived_before}");
    assert!(arrived_behind < arrived_before, "{arrived_behind} and {arrived_before}");
}
