//! A run, with defaults filled in and contradictions refused.

use std::time::Duration;

use uroce_device::wire::Mtu;
use uroce_exchange::perftest::Announced;

use super::args::{Atomic, Connection, Metric, PerfArgs, Verb};
use crate::failure::Failure;

/// The unit that small messages walk through: perftest's cycle buffer.
pub const CYCLE: u64 = 4096;
/// The step of small messages: a cache line.
pub const LINE: u64 = 64;
/// Largest size of `-a`.
const LARGEST: u64 = 1 << 23;
/// perftest signals each work request above this size.
const BIG: u64 = 8192;
/// What `-I` may reach: the limit of the device.
const UD_HEADER: u64 = 40;

/// A validated run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// As given.
    pub args: PerfArgs,
    /// Message sizes, in order.
    pub sizes: Vec<u64>,
    /// Messages of each size.
    pub iters: u64,
    /// Instead of a number of messages.
    pub duration: Option<Duration>,
    /// Send queue depth.
    pub tx_depth: u32,
    /// Receive queue depth.
    pub rx_depth: u32,
    /// Path MTU that this end wants.
    pub mtu: Option<Mtu>,
    /// READ and atomic requests in flight.
    pub outs: u8,
}

impl Plan {
    /// # Errors
    /// Exit 2 for what cannot be done.
    pub fn new(args: &PerfArgs) -> Result<Plan, Failure> {
        refuse_foreign(args)?;
        refuse_contradictions(args)?;
        refuse_what_says_nothing(args)?;
        let path_mtu = mtu(args)?;
        refuse_long_datagram(args, path_mtu.unwrap_or(Mtu::M4096))?;
        let iters =
            args.iters.unwrap_or(if is(args, Verb::Write, Metric::Bw) { 5000 } else { 1000 });
        let bound = u32::try_from(iters).unwrap_or(u32::MAX);
        let bound = if args.duration.is_some() { u32::MAX } else { bound };
        let lat = args.metric == Metric::Lat;
        let tx_depth = args.tx_depth.unwrap_or(128);
        Ok(Plan {
            sizes: sizes(args),
            iters,
            duration: args.duration.map(|s| Duration::from_secs(s.into())),
            tx_depth: if lat { args.cq_mod.unwrap_or(1) } else { tx_depth }.min(bound),
            rx_depth: args.rx_depth.unwrap_or(512).min(bound).min(32_767 / args.qp),
            mtu: path_mtu,
            outs: match args.verb {
                Verb::Read | Verb::Atomic => args.outs.unwrap_or(128),
                Verb::Write | Verb::Send => 1,
            },
            args: args.clone(),
        })
    }

    /// What we tell a peer.
    pub fn announced(&self) -> Announced {
        let args = &self.args;
        let count = args.duration.map_or(self.iters, u64::from);
        Announced {
            test: self.test_bits(),
            all: args.all,
            timed: args.duration.is_some(),
            size: u32::try_from(self.largest()).unwrap_or(u32::MAX),
            count: u32::try_from(count).unwrap_or(u32::MAX),
        }
    }

    fn test_bits(&self) -> u8 {
        let verb = self.args.verb as u8 | (self.args.metric as u8) << 2;
        verb | (self.args.connection as u8) << 3 | u8::from(self.args.bidirectional) << 5
    }

    /// The plan of both ends, once a peer of ours has told its own: a server takes over how much the client sends.
    ///
    /// # Errors
    /// Exit 4 if the peer runs another test; exit 2 if what it runs does not go with our other arguments.
    pub fn agreed(&self, theirs: &Announced, is_client: bool, mtu: Mtu) -> Result<Plan, Failure> {
        if theirs.test != self.test_bits() {
            return Err(Failure::peer("the peer runs another test than this end")
                .help("give both ends the same operation, bw or lat, -c and -b"));
        }
        if is_client {
            return Ok(self.clone());
        }
        if theirs.size == 0 || theirs.size > i32::MAX as u32 || theirs.count == 0 {
            return Err(Failure::peer("the peer announces a test that there is not")
                .help("run the same version of this program at both ends"));
        }
        let sized = !theirs.all && self.args.verb != Verb::Atomic;
        // A client sends no longer datagrams either: it shortens what nobody asked for, and refuses the rest by itself.
        let most = if self.is_ud() { mtu.bytes() as u32 } else { u32::MAX };
        Plan::new(&PerfArgs {
            all: theirs.all,
            size: sized.then_some(theirs.size.min(most)),
            iters: (!theirs.timed).then_some(theirs.count.into()),
            duration: theirs.timed.then_some(theirs.count),
            ..self.args.clone()
        })
    }

    /// The largest message.
    pub fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Work requests for each signalled one, at this size.
    pub fn cq_mod(&self, size: u64) -> u32 {
        let wanted = match self.args.cq_mod {
            Some(wanted) => wanted,
            None if size > BIG || self.is_lat() => 1,
            None => 100,
        };
        let iters = if self.duration.is_some() { u64::MAX } else { self.iters };
        let most = self.tx_depth.min(u32::try_from(iters).unwrap_or(u32::MAX));
        wanted.clamp(1, most.max(1))
    }

    /// The end of the messages moves in memory so: `offset` of the next message after one at
    /// `offset`. Messages of 4096 bytes and more stay where they are.
    pub fn next_offset(&self, offset: u64, size: u64) -> u64 {
        if size >= CYCLE || self.args.metric == Metric::Lat {
            return 0;
        }
        let step = size.max(1).next_multiple_of(LINE);
        let next = offset + step;
        if next + size > CYCLE { 0 } else { next }
    }

    /// `write_bw`, ...
    pub fn name(&self) -> String {
        let verb = match self.args.verb {
            Verb::Write => "write",
            Verb::Read => "read",
            Verb::Send => "send",
            Verb::Atomic => "atomic",
        };
        let metric = if self.is_lat() { "lat" } else { "bw" };
        format!("{verb}_{metric}")
    }

    /// The title that perftest prints.
    pub fn title(&self) -> String {
        let verb = match (self.args.verb, self.args.atomic_type) {
            (Verb::Write, _) => "RDMA_Write",
            (Verb::Read, _) => "RDMA_Read",
            (Verb::Send, _) => "Send",
            (Verb::Atomic, Atomic::FetchAndAdd) => "Atomic FETCH_AND_ADD",
            (Verb::Atomic, Atomic::CmpAndSwap) => "Atomic CMP_AND_SWAP",
        };
        let way = if self.args.bidirectional { " Bidirectional" } else { "" };
        let metric = if self.is_lat() { "Latency" } else { "BW" };
        format!("{verb}{way} {metric} Test")
    }

    /// `RC`, `UC`, `UD`.
    pub fn connection(&self) -> &'static str {
        match self.args.connection {
            Connection::Rc => "RC",
            Connection::Uc => "UC",
            Connection::Ud => "UD",
        }
    }

    /// Lost packets are repeated.
    pub fn is_reliable(&self) -> bool {
        self.args.connection == Connection::Rc
    }

    /// What is not counted at both ends of a timed run.
    pub fn margin(&self) -> Duration {
        Duration::from_secs(self.args.margin.into())
    }

    /// A latency test.
    pub fn is_lat(&self) -> bool {
        self.args.metric == Metric::Lat
    }

    /// Datagrams.
    pub fn is_ud(&self) -> bool {
        self.args.connection == Connection::Ud
    }

    /// The requester gets an answer with data: READ and atomics.
    pub fn has_response(&self) -> bool {
        matches!(self.args.verb, Verb::Read | Verb::Atomic)
    }

    /// Receives are posted.
    pub fn receives(&self) -> bool {
        self.args.verb == Verb::Send
    }

    /// Bytes in front of a received message: the GRH area of UD.
    pub fn prefix(&self) -> u64 {
        if self.is_ud() { UD_HEADER } else { 0 }
    }

    /// Sizes above the path MTU cannot be sent as datagrams: leaves them out of `-a`, or refuses.
    ///
    /// # Errors
    /// Exit 2 if `-s` is too large.
    pub fn limit_to(&mut self, mtu: Mtu) -> Result<(), Failure> {
        if !self.is_ud() {
            return Ok(());
        }
        refuse_long_datagram(&self.args, mtu)?;
        let most = mtu.bytes() as u64;
        if self.args.all {
            self.sizes.retain(|&size| size <= most);
        } else if self.largest() > most {
            self.sizes = vec![most];
        }
        Ok(())
    }
}

/// A size that was asked for has to fit one packet where messages are datagrams.
fn refuse_long_datagram(args: &PerfArgs, mtu: Mtu) -> Result<(), Failure> {
    let most = mtu.bytes();
    match args.size {
        Some(size) if args.connection == Connection::Ud && size as usize > most => {
            let what = format!("a datagram of {size} bytes does not fit the path MTU of {most}");
            let more = match mtu {
                Mtu::M4096 => "there is no larger one: use -c RC for longer messages",
                _ => "raise -m, or the MTU of the link",
            };
            Err(Failure::usage(what).help(format!("use -s {most} or less; {more}")))
        }
        _ => Ok(()),
    }
}

fn is(args: &PerfArgs, verb: Verb, metric: Metric) -> bool {
    args.verb == verb && args.metric == metric
}

fn sizes(args: &PerfArgs) -> Vec<u64> {
    if args.verb == Verb::Atomic {
        return vec![8];
    }
    if args.all {
        return (1..=LARGEST.ilog2()).map(|shift| 1 << shift).collect();
    }
    let default = match args.metric {
        Metric::Bw => 65536,
        Metric::Lat => 2,
    };
    vec![args.size.unwrap_or(default).into()]
}

fn mtu(args: &PerfArgs) -> Result<Option<Mtu>, Failure> {
    let Some(bytes) = args.mtu else {
        return Ok(None);
    };
    match Mtu::from_bytes(bytes) {
        Some(mtu) => Ok(Some(mtu)),
        None => Err(Failure::usage(format!("there is no path MTU of {bytes} bytes"))
            .help("use 256, 512, 1024, 2048 or 4096")),
    }
}

fn refuse_foreign(args: &PerfArgs) -> Result<(), Failure> {
    let refused = [
        (args.rdma_cm, "-R", "there is no rdma_cm here yet: leave it out at both ends"),
        (args.comm_rdma_cm, "-z", "there is no rdma_cm here yet: leave it out at both ends"),
        (args.mcg.is_some(), "-g", "multicast tests are not offered: `uroce demo` shows multicast"),
        (args.report_cycles, "-C", "times are in microseconds only: leave it out"),
        (args.run_infinitely, "--run_infinitely", "use -D with a large number and Ctrl-C"),
        (args.cpu_util, "--cpu_util", "use `time` or `perf stat` around the command"),
        (args.report_counters.is_some(), "-W", "use --log debug, which prints the counters"),
    ];
    match refused.into_iter().find(|(given, ..)| *given) {
        Some((_, flag, why)) => {
            Err(Failure::usage(format!("{flag} of perftest is not supported")).help(why))
        }
        None => Ok(()),
    }
}

fn refuse_contradictions(args: &PerfArgs) -> Result<(), Failure> {
    let (verb, lat) = (args.verb, args.metric == Metric::Lat);
    let send = verb == Verb::Send;
    let duration = args.duration.unwrap_or(u32::MAX);
    let refused = [
        (lat && args.qp > 1, "a latency test has one queue pair: leave -q out"),
        (lat && args.bidirectional, "a latency test has no -b: leave it out"),
        (lat && args.post_list > 1, "a latency test has no -l: leave it out"),
        (
            lat && args.cq_mod.is_some() && matches!(verb, Verb::Read | Verb::Atomic),
            "each read and atomic is waited for: leave -Q out",
        ),
        (
            matches!(verb, Verb::Read | Verb::Atomic) && args.connection != Connection::Rc,
            "read and atomic need a reliable connection: use -c RC",
        ),
        (
            verb == Verb::Write && args.connection == Connection::Ud,
            "datagrams have no RDMA WRITE: use -c RC or -c UC",
        ),
        (
            args.events && args.bidirectional,
            "with -b an end that waits for a message has some to send as well: leave -e or -b out",
        ),
        (args.events && !send, "-e works with send only: nothing wakes the other end of a write"),
        (args.use_srq && !send, "--use-srq works with send only: nothing else takes receives"),
        (
            args.use_srq && args.qp > 1 && args.verify,
            "with a shared queue nobody knows which buffer a message lands in: use -q 1 with --verify",
        ),
        (
            verb == Verb::Atomic && args.size.is_some_and(|s| s != 8),
            "an atomic has 8 bytes: leave -s out",
        ),
        (verb == Verb::Atomic && args.all, "an atomic has 8 bytes: leave -a out"),
        (
            args.inline_size > 0 && matches!(verb, Verb::Read | Verb::Atomic),
            "read and atomic send no data: leave -I out",
        ),
        (
            args.margin.saturating_mul(2) >= duration,
            "-f at both ends leaves nothing of -D: use a smaller -f",
        ),
        (
            !lat && args.cq_mod.is_some_and(|m| args.tx_depth.unwrap_or(128) < m),
            "-Q above -t would wait for a completion that never comes: use -Q at most as large as -t",
        ),
        (
            args.tx_depth.unwrap_or(128) < args.post_list,
            "-l above -t does not fit the send queue: use -l at most as large as -t",
        ),
        (
            u64::from(args.tx_depth.unwrap_or(128)) * u64::from(args.qp) > 32_767,
            "-q times -t exceeds the 32767 entries of a completion queue: use a smaller -t",
        ),
    ];
    refuse_first(&refused)
}

/// Flags that the rest of the command line leaves without an effect.
fn refuse_what_says_nothing(args: &PerfArgs) -> Result<(), Failure> {
    let lat = args.metric == Metric::Lat;
    let (timed, sorted, unsorted) =
        (args.duration.is_some(), args.report_histogram, args.report_unsorted);
    refuse_first(&[
        (args.margin > 0 && !timed, "-f is about the time of -D: give -D too, or leave -f out"),
        (!lat && sorted, "-H prints the samples of a latency test: leave it out, or measure lat"),
        (!lat && unsorted, "-U prints the samples of a latency test: leave it out, or measure lat"),
        (
            !lat && args.percentiles,
            "--percentiles are those of a latency test: leave it out, or measure lat",
        ),
        (timed && sorted, "a run of -D keeps no samples: leave -H out, or give -n in place of -D"),
        (
            timed && unsorted,
            "a run of -D keeps no samples: leave -U out, or give -n in place of -D",
        ),
    ])
}

fn refuse_first(refused: &[(bool, &'static str)]) -> Result<(), Failure> {
    match refused.iter().find(|(wrong, _)| *wrong) {
        Some((_, why)) => Err(Failure::usage(*why)),
        None => Ok(()),
    }
}

#[cfg(test)]
pub mod testing {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// The plan of a command line.
    pub fn plan(flags: &str) -> Result<Plan, Failure> {
        let words = ["uroce", "perf"].into_iter().chain(flags.split_whitespace());
        let cli = Cli::try_parse_from(words).expect("flags that exist");
        match cli.command {
            Command::Perf(args) => Plan::new(&args),
            other => panic!("not perf: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::plan;
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn defaults_are_those_of_perftest() {
        let bw = plan("write bw").expect("fine");
        assert_eq!((bw.sizes.as_slice(), bw.iters, bw.tx_depth), (&[65536][..], 5000, 128));
        assert_eq!((bw.cq_mod(65536), bw.cq_mod(8192), bw.outs), (1, 100, 1));
        let lat = plan("read lat -n 8").expect("fine");
        assert_eq!((lat.sizes.as_slice(), lat.tx_depth, lat.outs), (&[2][..], 1, 128));
        assert_eq!(plan("send lat").expect("fine").cq_mod(2), 1);
        assert_eq!(plan("send bw -n 10").expect("fine").rx_depth, 10);
        assert_eq!(plan("atomic bw").expect("fine").title(), "Atomic FETCH_AND_ADD BW Test");
        assert_eq!(plan("write bw -a").expect("fine").sizes.len(), 23);
    }

    #[test]
    fn small_messages_walk_and_large_ones_stay() {
        let bw = plan("write bw").expect("fine");
        let walk: Vec<_> = (0..6)
            .scan(0, |at, _| {
                let now = *at;
                *at = bw.next_offset(now, 1024);
                Some(now)
            })
            .collect();
        assert_eq!(walk, [0, 1024, 2048, 3072, 0, 1024]);
        assert_eq!(bw.next_offset(0, 2), 64);
        assert_eq!(bw.next_offset(4032, 64), 0);
        assert_eq!(bw.next_offset(0, 4096), 0);
        assert_eq!(plan("write lat").expect("fine").next_offset(0, 2), 0);
    }

    #[test]
    fn a_latency_test_keeps_what_waits_for_a_completion() {
        let lat = plan("write lat -Q 64").expect("fine");
        assert_eq!((lat.cq_mod(2), lat.tx_depth), (64, 64));
        let few = plan("write lat -Q 64 -n 8").expect("fine");
        assert_eq!((few.cq_mod(2), few.tx_depth), (8, 8));
    }

    #[test]
    fn contradictions_are_refused_with_a_remedy() {
        for flags in [
            "write bw -c UD",
            "read bw -c UC",
            "write lat -q 2",
            "read lat -Q 2",
            "write bw -e",
            "atomic bw -s 16",
            "write bw -R",
            "write bw -m 1000",
            "write bw -t 8 -Q 9",
            "write bw -D 2 -f 1",
            "write bw -n 1000 -f 1",
            "read lat -f 1",
            "send bw -e -b",
            "send lat -D 4 -U",
            "send lat -D 4 -H",
            "write bw -U",
            "write bw -H",
            "write bw --percentiles",
            "send bw -c UD -s 4097",
            "send lat -c UD -m 1024 -s 2048",
        ] {
            let failure = plan(flags).expect_err(flags);
            assert_eq!(failure.exit, Exit::Usage, "{flags}");
        }
    }

    #[test]
    fn a_refusal_names_the_flag_that_can_go() {
        for (flags, flag) in [
            ("read lat -f 1", "-f"),
            ("send bw -e -b", "-e or -b"),
            ("send lat -D 4 -U", "-U"),
            ("send lat -D 4 -H", "-H"),
            ("write bw --percentiles", "--percentiles"),
        ] {
            let why = plan(flags).expect_err(flags).what;
            assert!(why.contains("leave") && why.contains(flag), "{flags}: {why}");
        }
        assert_eq!(plan("write lat -D 4 -f 1").expect("fine").margin(), Duration::from_secs(1));
        assert!(plan("send lat -U --percentiles").is_ok() && plan("send bw -e").is_ok());
    }

    #[test]
    fn v125_a_server_takes_over_what_the_client_sends() {
        let server = plan("write bw").expect("fine");
        let agreed =
            |flags| server.agreed(&plan(flags).expect("fine").announced(), false, Mtu::M4096);
        let all = agreed("write bw -a -n 10").expect("the same test");
        assert_eq!((all.sizes.len(), all.largest(), all.iters), (23, 1 << 23, 10));
        let timed = agreed("write bw -s 100 -D 3").expect("the same test");
        assert_eq!(
            (timed.sizes.as_slice(), timed.duration),
            (&[100][..], Some(Duration::from_secs(3)))
        );
        for other in ["read bw", "write lat", "write bw -c UC", "write bw -b"] {
            assert_eq!(agreed(other).expect_err(other).exit, Exit::Peer);
        }
        let client = plan("write bw -s 8").expect("fine");
        assert_eq!(client.agreed(&server.announced(), true, Mtu::M4096).expect("fine").sizes, [8]);
        let atomic = plan("atomic bw").expect("fine");
        assert!(atomic.agreed(&atomic.announced(), false, Mtu::M4096).is_ok());
    }

    #[test]
    fn a_server_of_datagrams_shortens_the_default_of_its_client() {
        let both = plan("send bw -c UD").expect("fine");
        let mut server = both.agreed(&both.announced(), false, Mtu::M1024).expect("the same test");
        server.limit_to(Mtu::M1024).expect("shortened");
        assert_eq!(server.sizes, [1024]);
    }

    #[test]
    fn datagrams_fit_the_mtu() {
        let mut all = plan("send bw -c UD -a").expect("fine");
        all.limit_to(Mtu::M1024).expect("shortened");
        assert_eq!(all.largest(), 1024);
        let mut default = plan("send bw -c UD").expect("fine");
        default.limit_to(Mtu::M2048).expect("shortened");
        assert_eq!(default.sizes, [2048]);
        let mut given = plan("send bw -c UD -s 4096").expect("fine");
        assert!(given.limit_to(Mtu::M2048).is_err());
    }
}
