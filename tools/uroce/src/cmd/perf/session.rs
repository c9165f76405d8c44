//! Both ends of a run get to know each other: versions, MTU, keys, connections, barriers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use uroce_exchange::perftest::{self, Announced, Keys, Measured};
use uroce_verbs::{
    Access, AddressHandle, CompChannel, CompletionQueue, ConnectOptions, Context, Endpoint, Mtu,
    ProtectionDomain, Psn, QpType, Qpn, QueuePair, SharedReceiveQueue,
};

use super::args::{Connection, Verb};
use super::buffers::Buffers;
use super::plan::Plan;
use crate::channel::{Channel, INTRODUCTION, stranger};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::usage::{Setup, Usage, resident_bytes};

/// perftest's Q_Key.
pub const QKEY: u32 = 0x1111_1111;

/// In the last field of a barrier, which stock programs do not look at: "I verify", "all bytes were
/// right", "some were wrong".
pub const VERIFIES: u32 = 0x7665_7201;
/// All bytes were right.
pub const VERIFIED: u32 = 0x7665_7202;
/// Some bytes were wrong.
pub const CORRUPT: u32 = 0x7665_7203;

/// A connected pair of ends.
#[derive(Debug)]
pub struct PerfSession {
    /// The queue pairs.
    ///
    /// First of all fields, so that they end before the memory does: else a message that is just
    /// coming would be refused, and the peer told of an error, instead of getting no answer.
    pub qps: Vec<QueuePair>,
    /// The device.
    pub context: Context,
    /// The side channel.
    pub channel: Channel,
    /// Ctrl-C.
    pub interrupt: Interrupt,
    /// What to do.
    pub plan: Plan,
    /// The path MTU, agreed on.
    pub mtu: Mtu,
    /// The memory.
    pub buffers: Buffers,
    /// Completions of sends, a queue for each engine of the device.
    pub send_cqs: Vec<CompletionQueue>,
    /// Completions of receives, likewise.
    pub recv_cqs: Vec<CompletionQueue>,
    /// Wakes the receiver with `-e`.
    pub events: Option<CompChannel>,
    /// Shared receive queue.
    pub srq: Option<SharedReceiveQueue>,
    /// The peer's queue pairs and memory.
    pub remote: Vec<Keys>,
    /// Ours, as told to the peer.
    pub local: Vec<Keys>,
    /// How datagrams reach the peer.
    pub handle: Option<AddressHandle>,
    /// What it took to make the queue pairs.
    pub setup: Setup,
    /// The peer verifies too.
    pub peer_verifies: AtomicBool,
}

impl PerfSession {
    /// Everything up to the exchanged keys; nothing is connected yet.
    ///
    /// # Errors
    /// Exit 4 for a peer that speaks something else, exit 3 for what the device refuses.
    pub fn open(
        context: Context,
        channel: Channel,
        mut plan: Plan,
        interrupt: &Interrupt,
    ) -> Result<PerfSession, Failure> {
        channel.set_patience(Some(INTRODUCTION));
        let (mtu, announced) = agree(&context, &channel, &plan)?;
        if let Some(announced) = announced {
            plan = plan.agreed(&announced, channel.is_client(), mtu)?;
        }
        plan.limit_to(mtu)?;
        let pd = context.alloc_pd().map_err(Failure::environment)?;
        let mut buffers = Buffers::new(&pd, &plan)?;
        let made = Objects::new(&context, &pd, &plan)?;
        if plan.args.verify {
            buffers.prepare(&plan);
        }
        let mut session = PerfSession {
            context,
            channel,
            interrupt: interrupt.clone(),
            mtu,
            buffers,
            send_cqs: made.send_cqs,
            recv_cqs: made.recv_cqs,
            events: made.events,
            qps: made.qps,
            srq: made.srq,
            remote: Vec::new(),
            local: Vec::new(),
            handle: None,
            setup: made.setup,
            peer_verifies: AtomicBool::new(false),
            plan,
        };
        session.exchange_keys()?;
        session.channel.set_patience(None);
        if session.plan.is_ud() {
            session.handle = Some(session.address_handle(&pd)?);
        }
        Ok(session)
    }

    /// How many engines the device has. Queue pair `i` is in engine `i` modulo that.
    pub fn engines(&self) -> usize {
        self.send_cqs.len()
    }

    /// True at the end that posts the operations of a one-way test.
    pub fn is_client(&self) -> bool {
        self.channel.is_client()
    }

    /// Both ends were asked to verify: known behind the barriers that follow the connection.
    pub fn verifies(&self) -> bool {
        self.plan.args.verify && self.peer_verifies.load(Ordering::Relaxed)
    }

    fn keys_of(&self, index: u32, qp: &QueuePair) -> Keys {
        let Endpoint { gid, qpn, psn, .. } = qp.endpoint();
        Keys {
            lid: 0,
            out_reads: self.plan.outs.into(),
            qpn: qpn.get(),
            psn: psn.get(),
            rkey: self.buffers.rkey(&self.plan),
            vaddr: self.buffers.remote_address(index),
            gid,
            srqn: 0,
        }
    }

    fn exchange_keys(&mut self) -> Result<(), Failure> {
        self.local = (0..).zip(&self.qps).map(|(i, qp)| self.keys_of(i, qp)).collect();
        for keys in &self.local {
            let theirs = self.channel.swap(&keys.encode())?;
            let theirs = Keys::decode(&theirs).map_err(stranger)?;
            self.channel.set_nic_of_peer(theirs.gid.to_ip());
            self.remote.push(theirs);
        }
        Ok(())
    }

    fn address_handle(&self, pd: &ProtectionDomain) -> Result<AddressHandle, Failure> {
        let gid = self.remote.first().map(|keys| keys.gid).unwrap_or_default();
        pd.create_ah(gid.to_ip()).map_err(Failure::environment)
    }

    /// Brings the queue pairs into RTS.
    ///
    /// # Errors
    /// Exit 3 for what the device refuses.
    pub fn connect(&self) -> Result<(), Failure> {
        for (qp, theirs) in self.qps.iter().zip(&self.remote) {
            if self.plan.is_ud() {
                qp.activate(QKEY).map_err(Failure::environment)?;
            } else {
                self.connect_one(qp, theirs)?;
            }
        }
        Ok(())
    }

    fn connect_one(&self, qp: &QueuePair, theirs: &Keys) -> Result<(), Failure> {
        let args = &self.plan.args;
        let theirs_reads = u8::try_from(theirs.out_reads).unwrap_or(u8::MAX);
        let options = ConnectOptions {
            mtu: Some(self.mtu),
            timeout: args.qp_timeout,
            retry_cnt: args.retry_count,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: self.plan.outs.min(theirs_reads).max(1),
            max_dest_rd_atomic: self.plan.outs,
            access: match args.verb {
                Verb::Write | Verb::Send => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
                Verb::Read => Access::REMOTE_READ,
                Verb::Atomic => Access::REMOTE_ATOMIC,
            },
            traffic_class: args.tos,
            gid_index: args.gid_index,
            ..ConnectOptions::default()
        };
        let endpoint = Endpoint::new(theirs.gid, Qpn::new(theirs.qpn), Psn::new(theirs.psn));
        qp.connect(&endpoint, &options).map_err(|error| {
            Failure::environment(format!("cannot connect to {}: {error}", theirs.gid.to_ip()))
        })
    }

    /// Waits until the peer is here too.
    ///
    /// # Errors
    /// Exit 4 when the peer is gone.
    pub fn barrier(&self) -> Result<(), Failure> {
        self.go().map(drop)
    }

    /// A barrier, and the moment before which the peer cannot have gone on behind it.
    ///
    /// # Errors
    /// Exit 4 when the peer is gone.
    pub fn go(&self) -> Result<Instant, Failure> {
        let note = if self.plan.args.verify { VERIFIES } else { 0 };
        let (theirs, moment) = self.timed_barrier(note)?;
        self.peer_verifies.fetch_or(theirs == VERIFIES, Ordering::Relaxed);
        Ok(moment)
    }

    /// A barrier that tells something of ours; the result is what the peer told so.
    ///
    /// # Errors
    /// Exit 4 when the peer is gone.
    pub fn barrier_with(&self, note: u32) -> Result<u32, Failure> {
        self.timed_barrier(note).map(|(theirs, _)| theirs)
    }

    fn timed_barrier(&self, note: u32) -> Result<(u32, Instant), Failure> {
        let mut keys = self.local[0];
        keys.srqn = note;
        let (theirs, moment) = self.channel.timed_swap(&keys.encode())?;
        // A peer that ended early says so instead of repeating its keys.
        Ok((Keys::decode(&theirs).map_err(stranger)?.srqn, moment))
    }

    /// Exchanges the results of a bandwidth test.
    ///
    /// # Errors
    /// Exit 4 when the peer is gone.
    pub fn swap_results(&self, mine: &Measured) -> Result<Measured, Failure> {
        let mut theirs = [[0; 8]; 5];
        for (mine, theirs) in mine.words().iter().zip(&mut theirs) {
            *theirs = self.channel.swap(mine)?;
        }
        Ok(Measured::from_words(&theirs))
    }
}

/// Versions, constants, MTU, and what a peer of ours runs. The smaller MTU counts.
fn agree(
    context: &Context,
    channel: &Channel,
    plan: &Plan,
) -> Result<(Mtu, Option<Announced>), Failure> {
    let active = context.query_port().active_mtu;
    let mine = plan.mtu.unwrap_or(active);
    if mine > active {
        return Err(Failure::environment(format!(
            "a path MTU of {mine} does not fit the link of {}, which carries {active}",
            context.netdev()
        ))
        .help(format!(
            "use -m {active}, or raise the MTU: ip link set {} mtu {}",
            context.netdev(),
            mine.bytes() + 80
        )));
    }
    let record = channel.swap(&perftest::version_record(&plan.announced()))?;
    let version = perftest::decode_version(&record).map_err(stranger)?;
    if version != perftest::VERSION {
        tracing::warn!(%version, "the peer speaks another version of the exchange than {}", perftest::VERSION);
    }
    channel.swap(&perftest::CYCLE_BUFFER.to_be_bytes())?;
    channel.swap(&perftest::CACHE_LINE.to_be_bytes())?;
    let theirs = channel.swap(&perftest::mtu_record(mine.code()))?;
    let theirs = perftest::decode_mtu(theirs).map_err(stranger)?;
    let mtu = Mtu::from_code(theirs).map_or(mine, |theirs| theirs.min(mine));
    Ok((mtu, Announced::decode(&record)))
}

/// The objects of a run.
struct Objects {
    send_cqs: Vec<CompletionQueue>,
    recv_cqs: Vec<CompletionQueue>,
    events: Option<CompChannel>,
    qps: Vec<QueuePair>,
    srq: Option<SharedReceiveQueue>,
    setup: Setup,
}

impl Objects {
    fn new(context: &Context, pd: &ProtectionDomain, plan: &Plan) -> Result<Objects, Failure> {
        let (send, receive) = (plan.tx_depth * plan.args.qp, plan.rx_depth * plan.args.qp);
        let vectors = 0..context.query_device().num_comp_vectors;
        if plan.args.use_srq && plan.args.qp > 1 && vectors.len() > 1 {
            return Err(Failure::usage(
                "a shared receive queue serves the queue pairs of one engine",
            )
            .help("leave out --engines, --use-srq or -q"));
        }
        let send_cqs = vectors.clone().map(|vector| context.create_cq_on(vector, send.max(1)));
        let send_cqs = send_cqs.collect::<Result<Vec<_>, _>>().map_err(Failure::environment)?;
        let events = match plan.args.events {
            true => Some(context.create_comp_channel().map_err(Failure::environment)?),
            false => None,
        };
        let receive = receive.clamp(1, 32_767);
        let recv_cqs = vectors.map(|vector| match &events {
            Some(channel) => channel.create_cq_on(vector, receive, 0),
            None => context.create_cq_on(vector, receive),
        });
        let recv_cqs = recv_cqs.collect::<Result<Vec<_>, _>>().map_err(Failure::environment)?;
        let srq = match plan.args.use_srq {
            true => Some(pd.create_srq(receive, 1).map_err(Failure::environment)?),
            false => None,
        };
        let start = Usage::now();
        let before = resident_bytes();
        let engines = send_cqs.iter().zip(&recv_cqs).cycle();
        let qps = engines.take(plan.args.qp as usize).map(|(send_cq, recv_cq)| {
            let mut builder = pd
                .qp_builder(qp_type(plan), send_cq, recv_cq)
                .max_send_wr(plan.tx_depth)
                .max_recv_wr(if srq.is_some() { 0 } else { plan.rx_depth })
                .max_send_sge(1)
                .max_recv_sge(1)
                .max_inline(plan.args.inline_size);
            if let Some(srq) = &srq {
                builder = builder.srq(srq);
            }
            builder.build().map_err(Failure::environment)
        });
        let qps = qps.collect::<Result<Vec<_>, _>>()?;
        let setup = Setup {
            seconds: start.elapsed().elapsed_seconds,
            resident_bytes: resident_bytes().saturating_sub(before),
        };
        Ok(Objects { send_cqs, recv_cqs, events, qps, srq, setup })
    }
}

fn qp_type(plan: &Plan) -> QpType {
    match plan.args.connection {
        Connection::Rc => QpType::Rc,
        Connection::Uc => QpType::Uc,
        Connection::Ud => QpType::Ud,
    }
}
