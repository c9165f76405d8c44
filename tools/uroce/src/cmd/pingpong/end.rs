//! One end of a ping-pong: its objects, and the exchange that connects it.

use uroce_exchange::pingpong::{DONE, Destination, LEN, SRQ_RECORDS};
use uroce_verbs::{
    Access, AddressHandle, AddressHandleAttr, CompChannel, CompletionQueue, ConnectOptions,
    Context, Endpoint, MemoryRegion, ProtectionDomain, Psn, QpType, Qpn, QueuePair, RecvWr, Sge,
    SharedReceiveQueue,
};

use super::args::{PingpongArgs, PingpongKind};
use crate::channel::{Channel, INTRODUCTION, stranger};
use crate::failure::Failure;

/// Q_Key of `ibv_ud_pingpong`.
pub const QKEY: u32 = 0x1111_1111;
/// Bytes between two places that `-c` of the stock programs looks at.
const PAGE: usize = 4096;

/// The objects of one end.
#[derive(Debug)]
pub struct PingpongEnd {
    /// The queue pairs.
    ///
    /// First of all fields, so that they end before the memory does: else a message that is just
    /// coming would be refused, and the peer told of an error, instead of getting no answer.
    pub qps: Vec<QueuePair>,
    /// As given.
    pub args: PingpongArgs,
    /// The message; it is sent from where it is received.
    pub buffer: MemoryRegion,
    /// All completions.
    pub cq: CompletionQueue,
    /// Wakes with `-e`.
    pub events: Option<CompChannel>,
    /// What we tell the peer.
    pub local: Vec<Destination>,
    /// What the peer told.
    pub remote: Vec<Destination>,
    /// How datagrams reach the peer.
    pub handle: Option<AddressHandle>,
    srq: Option<SharedReceiveQueue>,
    pd: ProtectionDomain,
}

impl PingpongEnd {
    /// Makes the objects and posts the first receives.
    ///
    /// # Errors
    /// Exit 3 for what the device refuses.
    pub fn new(context: &Context, args: &PingpongArgs) -> Result<PingpongEnd, Failure> {
        check_mtu(context, args)?;
        let pd = context.alloc_pd().map_err(Failure::environment)?;
        let odp = if args.odp { Access::ON_DEMAND } else { Access::empty() };
        let length = args.message() + args.prefix();
        let buffer =
            pd.alloc_mr(length, Access::LOCAL_WRITE | odp).map_err(Failure::environment)?;
        let events = match args.events {
            true => Some(context.create_comp_channel().map_err(Failure::environment)?),
            false => None,
        };
        let entries = args.rx_depth + args.lanes();
        let cq = match &events {
            Some(channel) => channel.create_cq(entries, 0),
            None => context.create_cq(entries),
        };
        let cq = cq.map_err(Failure::environment)?;
        let srq = match args.kind {
            PingpongKind::Srq => {
                Some(pd.create_srq(args.rx_depth, 1).map_err(Failure::environment)?)
            }
            _ => None,
        };
        let qps = (0..args.lanes()).map(|_| queue_pair(args, &pd, &cq, srq.as_ref()));
        let qps = qps.collect::<Result<Vec<_>, _>>()?;
        let local = qps.iter().map(|qp| destination(&qp.endpoint())).collect();
        let end = PingpongEnd {
            args: args.clone(),
            buffer,
            cq,
            events,
            qps,
            local,
            remote: Vec::new(),
            handle: None,
            srq,
            pd,
        };
        end.post_receives(args.rx_depth)?;
        end.fill(0);
        Ok(end)
    }

    /// The piece that a message is received into.
    fn receive_sge(&self) -> Sge {
        self.buffer.sge(..)
    }

    /// The piece that a message is sent from.
    pub fn send_sge(&self) -> Sge {
        self.buffer.sge(self.args.prefix()..)
    }

    /// Posts `count` more receives.
    ///
    /// # Errors
    /// Exit 1 if the device refuses.
    pub fn post_receives(&self, count: u32) -> Result<(), Failure> {
        let sges = [self.receive_sge()];
        let wr = RecvWr::new(0, &sges);
        for _ in 0..count {
            let posted = match (&self.srq, self.qps.first()) {
                (Some(srq), _) => srq.post_recv(&[wr]),
                (None, Some(qp)) => qp.post_recv(&[wr]),
                (None, None) => Ok(()),
            };
            posted.map_err(|error| Failure::test(format!("cannot post a receive: {error}")))?;
        }
        Ok(())
    }

    /// Exchanges the records with the peer and connects. The server is connected before it answers,
    /// the client when it has the answer.
    ///
    /// # Errors
    /// Exit 4 for a peer that is gone or speaks something else.
    pub fn exchange(&mut self, channel: &Channel) -> Result<(), Failure> {
        channel.set_patience(Some(INTRODUCTION));
        if channel.is_client() {
            self.send_records(channel)?;
            self.receive_records(channel)?;
            channel.send(DONE)?;
            return self.connect();
        }
        self.receive_records(channel)?;
        self.connect()?;
        self.send_records(channel)?;
        let mut done = [0; DONE.len()];
        channel.receive(&mut done)
    }

    fn send_records(&self, channel: &Channel) -> Result<(), Failure> {
        let mut bytes: Vec<u8> = self.local.iter().flat_map(Destination::encode).collect();
        if self.args.kind == PingpongKind::Srq {
            let unused = Destination::unused().encode();
            (self.local.len()..SRQ_RECORDS).for_each(|_| bytes.extend(unused));
        }
        channel.send(&bytes)
    }

    fn receive_records(&mut self, channel: &Channel) -> Result<(), Failure> {
        let count = if self.args.kind == PingpongKind::Srq { SRQ_RECORDS } else { 1 };
        let mut bytes = vec![0; count * LEN];
        channel.receive(&mut bytes)?;
        let records = bytes.chunks_exact(LEN).take(self.local.len());
        self.remote =
            records.map(Destination::decode).collect::<Result<_, _>>().map_err(stranger)?;
        if let Some(to) = self.remote.first() {
            channel.set_nic_of_peer(to.gid.to_ip());
        }
        if let Some(unused) = self.remote.iter().find(|to| to.qpn == 0) {
            return Err(Failure::peer(format!(
                "the peer has no queue pair for one of ours ({})",
                unused.gid
            ))
            .help("give both ends the same -q"));
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<(), Failure> {
        if self.args.kind == PingpongKind::Ud {
            self.qps.iter().try_for_each(|qp| qp.activate(QKEY)).map_err(Failure::environment)?;
            let gid = self.remote.first().map(|to| to.gid).unwrap_or_default();
            let attr = AddressHandleAttr { gid_index: self.args.gid_idx, ..gid.into() };
            self.handle = Some(self.pd.create_ah(attr).map_err(Failure::environment)?);
            return Ok(());
        }
        let options = ConnectOptions {
            mtu: Some(self.args.path_mtu()?),
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            access: Access::empty(),
            gid_index: self.args.gid_idx,
            ..ConnectOptions::default()
        };
        for (qp, to) in self.qps.iter().zip(&self.remote) {
            let peer = Endpoint::new(to.gid, Qpn::new(to.qpn), Psn::new(to.psn));
            qp.connect(&peer, &options).map_err(|error| {
                Failure::environment(format!("cannot connect to {}: {error}", to.gid))
            })?;
        }
        Ok(())
    }

    /// Writes the contents of message `number`. The first byte of each page stays zero: that is what
    /// a stock peer with `-c` looks at.
    pub fn fill(&self, number: u64) {
        let bytes: Vec<u8> = (0..self.args.message()).map(|at| content(at, number)).collect();
        let written = self.buffer.write(self.args.prefix(), &bytes);
        debug_assert!(written.is_ok(), "the buffer has the size of the message");
    }

    /// The first byte of the message that is not what message `number` has. A server knows only the
    /// first bytes of pages, and sends back what it got.
    pub fn wrong_byte(&self, number: u64, client: bool) -> Option<usize> {
        let mut bytes = vec![0; self.args.message()];
        let copied = self.buffer.read(self.args.prefix(), &mut bytes);
        debug_assert!(copied.is_ok(), "the buffer has the size of the message");
        let known = |at: &usize| client || at.is_multiple_of(PAGE);
        (0..bytes.len()).filter(known).find(|&at| bytes[at] != content(at, number))
    }
}

fn content(at: usize, number: u64) -> u8 {
    if at.is_multiple_of(PAGE) {
        return 0;
    }
    let mixed = (at as u64 ^ number << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

fn destination(endpoint: &Endpoint) -> Destination {
    Destination { lid: 0, qpn: endpoint.qpn.get(), psn: endpoint.psn.get(), gid: endpoint.gid }
}

fn check_mtu(context: &Context, args: &PingpongArgs) -> Result<(), Failure> {
    let (mtu, active) = (args.path_mtu()?, context.query_port().active_mtu);
    if mtu > active {
        return Err(Failure::environment(format!(
            "a path MTU of {mtu} does not fit the link of {}, which carries {active}",
            context.netdev()
        ))
        .help(format!("use -m {active} at both ends, or raise the MTU of the interface")));
    }
    let message = args.message();
    if args.kind == PingpongKind::Ud && message > active.bytes() {
        return Err(Failure::usage(format!(
            "a datagram of {message} bytes does not fit the link's {active}"
        ))
        .help(format!("use -s {active} or less")));
    }
    Ok(())
}

fn queue_pair(
    args: &PingpongArgs,
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    srq: Option<&SharedReceiveQueue>,
) -> Result<QueuePair, Failure> {
    let qp_type = match args.kind {
        PingpongKind::Rc | PingpongKind::Srq => QpType::Rc,
        PingpongKind::Uc => QpType::Uc,
        PingpongKind::Ud => QpType::Ud,
    };
    let mut builder = pd
        .qp_builder(qp_type, cq, cq)
        .max_send_wr(1)
        .max_recv_wr(if srq.is_some() { 0 } else { args.rx_depth })
        .max_send_sge(1)
        .max_recv_sge(1)
        .max_inline(0);
    if let Some(srq) = srq {
        builder = builder.srq(srq);
    }
    let qp = builder.build().map_err(Failure::environment)?;
    qp.init().map_err(Failure::environment)?;
    Ok(qp)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use uroce_verbs::{DatapathChoice, LoopbackFabric, SendWr};

    use super::super::PingpongKind;
    use super::*;
    use crate::interrupt::Interrupt;

    fn args() -> PingpongArgs {
        PingpongArgs {
            kind: PingpongKind::Srq,
            host: None,
            port: 0,
            ib_port: 1,
            size: Some(1 << 20),
            mtu: 1024,
            rx_depth: 64,
            iters: 1,
            num_qp: 16,
            sl: 0,
            events: false,
            gid_idx: 1,
            odp: false,
            ts: false,
            chk: false,
        }
    }

    fn context(fabric: &LoopbackFabric, address: &str) -> Context {
        let address: IpAddr = address.parse().expect("an address");
        let datapath = DatapathChoice::Loopback(fabric.clone());
        Context::builder().address(address).datapath(datapath).open().expect("a loopback device")
    }

    /// Two connected ends.
    fn pair(contexts: &[Context; 2]) -> [PingpongEnd; 2] {
        let (client, server) = Channel::pair(&Interrupt::default()).expect("loopback TCP");
        let [mut a, mut b] =
            contexts.each_ref().map(|context| PingpongEnd::new(context, &args()).expect("an end"));
        std::thread::scope(|scope| {
            let server_end = &mut b;
            scope.spawn(move || server_end.exchange(&server).expect("the server's part"));
            a.exchange(&client).expect("the client's part");
        });
        [a, b]
    }

    #[test]
    fn an_end_that_goes_away_in_the_middle_of_a_message_refuses_nothing() {
        let fabric = LoopbackFabric::new();
        let contexts = ["10.9.0.1", "10.9.0.2"].map(|address| context(&fabric, address));
        for _ in 0..20 {
            let [sender, receiver] = pair(&contexts);
            let sges = [sender.send_sge()];
            for qp in &sender.qps {
                qp.post_send(&[SendWr::send(2, &sges)]).expect("room for one");
            }
            drop(receiver);
        }
        assert_eq!(contexts[1].counter("sent_nak"), Some(0));
    }
}
