//! The command line.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use uroce_device::limits::MAX_ENGINES;
use uroce_device::{DatapathChoice, Faults, UnknownDatapath};

use crate::cmd;
use crate::examples;
use crate::failure::Failure;
use crate::faults;

const AFTER: &str = "\
Exit codes: 0 all well (also after Ctrl-C, if something was measured), 1 the test failed, \
2 wrong usage, 3 this machine lacks something, 4 the peer is missing or went away.
Environment: UROCE_DEVICE (name or address), UROCE_DATAPATH, UROCE_ENGINES, UROCE_PCAP, \
UROCE_FAULT, UROCE_FAULT_SEED, UROCE_LOG, NO_COLOR. Flags win. `uroce run` passes them on.";

/// A software RDMA NIC (RoCEv2) in userspace: no kernel module, no root.
#[derive(Debug, Parser)]
#[command(name = "uroce", version, after_help = AFTER)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Open the device on this address of the machine [default: the one that reaches the peer]
    #[arg(long, global = true, value_name = "IP", conflicts_with = "ib_dev")]
    pub address: Option<IpAddr>,
    /// Open this device (see `uroce devices`), or the device with this address
    #[arg(short = 'd', long, visible_alias = "device", global = true, value_name = "NAME")]
    pub ib_dev: Option<String>,
    /// UDP port of RoCE, at both ends
    #[arg(long, global = true, value_name = "PORT", default_value_t = uroce_device::ROCE_PORT,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub roce_port: u16,
    /// How packets travel; auto is udp, and the others are used only when they are named: `uroce devinfo -v`
    /// says why [default: auto]
    #[arg(long, global = true, value_name = "HOW",
          value_parser = PossibleValuesParser::new(DatapathChoice::NAMES).try_map(read_datapath))]
    pub datapath: Option<DatapathChoice>,
    /// Engines of each device, each on a core of its own; see `perf -q` and README [default: 1]
    #[arg(long, global = true, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_ENGINES)))]
    pub engines: Option<u8>,
    /// Record every packet into a pcapng file, with comments on drops and repetitions. %p in the name becomes
    /// the process id; so does a name that another process records to (docs/captures.md)
    #[arg(long, global = true, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Make faults on purpose in what devices send and receive: lose, delay, double, damage packets by rules
    /// ('rx drop 1%', 'tx op=write -> drop count=1'), or by those in a file (docs/faults.md); may be repeated
    #[arg(long = "fault", global = true, value_name = "RULES|@FILE")]
    pub fault: Vec<String>,
    /// The seed of the faults, to repeat a run [default: drawn, and printed]
    #[arg(long, global = true, value_name = "N")]
    pub fault_seed: Option<u64>,
    /// The faults of all `--fault` together; none without one
    #[arg(skip)]
    pub faults: Option<Faults>,
    /// What `--fault` has replaced
    #[arg(long, global = true, value_name = "PERCENT", hide = true)]
    drop: Option<String>,
    /// Say what happens inside: off, error, warn, info, debug (on stderr)
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
    /// Print one JSON object, also about a failure
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show that it works: every operation once between two NICs of this machine, checked
    #[command(after_help = examples::DEMO)]
    Demo(cmd::demo::DemoArgs),
    /// List the devices of this machine, as ibv_devices does
    #[command(after_help = examples::DEVICES)]
    Devices,
    /// Show what a device and its port can do, as ibv_devinfo does
    #[command(after_help = examples::DEVINFO)]
    Devinfo(cmd::devinfo::DevinfoArgs),
    /// Print the packets of a capture: one line each, all their fields, or chosen ones
    Dissect(cmd::dissect::DissectArgs),
    /// Tell what of this machine helps or hinders RoCE, and the command that repairs it
    #[command(after_help = examples::DOCTOR)]
    Doctor(cmd::doctor::DoctorArgs),
    /// List the addresses of all devices, as show_gids does
    #[command(after_help = examples::GIDS)]
    Gids,
    /// Send messages to and fro with a peer, as ibv_{rc,uc,ud,srq}_pingpong do
    #[command(after_help = examples::PINGPONG)]
    Pingpong(cmd::pingpong::PingpongArgs),
    /// Ping a peer by address and port, as rping does: its NIC reads the data and writes it back
    #[command(after_help = examples::RPING)]
    Rping(cmd::rping::RpingArgs),
    /// Measure bandwidth or latency, as ib_{write,read,send,atomic}_{bw,lat} do
    #[command(after_help = examples::PERF)]
    Perf(Box<cmd::perf::PerfArgs>),
    /// Run an unmodified program of libibverbs on our devices: `uroce run -- ib_write_bw`
    Run(cmd::run::RunArgs),
    /// List what all processes have open: queue pairs, memory, connections, as `rdma resource` does
    #[command(after_help = examples::RES)]
    Res(cmd::res::ResArgs),
    /// List the counters of all devices of all processes, as `rdma statistic` does
    #[command(after_help = examples::STAT)]
    Stat(cmd::stat::StatArgs),
    /// Capture RoCE from interfaces: to the screen, to a pcapng file, or what came before and after a fault
    Capture(cmd::capture::CaptureArgs),
    /// Tell what a capture of RoCE shows: conversations, losses, failures, findings
    Analyze(Box<cmd::analyze::AnalyzeArgs>),
    /// Draw the packets of a conversation between two lines, as text or SVG
    Ladder(Box<cmd::ladder::LadderArgs>),
    /// Play recorded requests to a device of this process, and compare its answers with the recorded ones
    Replay(Box<cmd::replay::ReplayArgs>),
    /// Draw a capture as one HTML page, for a browser
    View(Box<cmd::view::ViewArgs>),
    /// Show what devices and queue pairs of all processes do, live
    Top(cmd::top::TopArgs),
    /// Check rules that make faults (docs/faults.md)
    #[command(after_help = examples::FAULT)]
    Fault(cmd::fault::FaultArgs),
    /// Test a RoCEv2 implementation rule by rule, with hand-made packets (docs/conform)
    Conform(Box<cmd::conform::ConformArgs>),
    /// Write the manual pages of all commands into a folder
    #[command(after_help = examples::MAN)]
    Man(cmd::man::ManArgs),
    /// Print the completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(cmd::completions::CompletionsArgs),
}

fn read_datapath(name: String) -> Result<DatapathChoice, UnknownDatapath> {
    name.parse()
}

impl Global {
    /// Fills what the command line left open from the environment.
    ///
    /// # Errors
    /// Exit 2 for a variable with a value that means nothing.
    pub fn with_environment(mut self) -> Result<Self, Failure> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if self.address.is_none() && self.ib_dev.is_none() {
            self.ib_dev = set("UROCE_DEVICE");
        }
        if let (None, Some(name)) = (&self.datapath, set("UROCE_DATAPATH")) {
            let bad = |error| Failure::usage(format!("UROCE_DATAPATH: {error}"));
            self.datapath = Some(name.parse().map_err(bad)?);
        }
        if let (None, Some(number)) = (self.engines, set("UROCE_ENGINES")) {
            let engines = number.parse().ok().filter(|engines| (1..=MAX_ENGINES).contains(engines));
            self.engines = Some(engines.ok_or_else(|| {
                Failure::usage(format!(
                    "UROCE_ENGINES is {number}, not a number from 1 to {MAX_ENGINES}"
                ))
            })?);
        }
        self.read_faults(set)?;
        self.pcap = self.pcap.or_else(|| set("UROCE_PCAP").map(PathBuf::from));
        self.log = self.log.or_else(|| set("UROCE_LOG"));
        Ok(self)
    }

    fn read_faults(&mut self, set: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
        refuse_drop(self.drop.as_deref().or(set("UROCE_DROP").as_deref()))?;
        if self.fault.is_empty() {
            self.fault.extend(set("UROCE_FAULT"));
        }
        if let (None, Some(text)) = (self.fault_seed, set("UROCE_FAULT_SEED")) {
            let bad = |_| Failure::usage(format!("UROCE_FAULT_SEED is {text}, not a whole number"));
            self.fault_seed = Some(text.parse().map_err(bad)?);
        }
        self.faults = faults::read(&self.fault, self.fault_seed)?;
        Ok(())
    }

    /// How many engines each device has.
    pub fn engines(&self) -> NonZeroU8 {
        self.engines.and_then(NonZeroU8::new).unwrap_or(NonZeroU8::MIN)
    }

    /// How packets travel.
    pub fn datapath(&self) -> DatapathChoice {
        self.datapath.clone().unwrap_or_default()
    }

    /// How packets travel between this process and another.
    ///
    /// # Errors
    /// Exit 2 for a datapath that ends within the process.
    pub fn datapath_to_peers(&self) -> Result<DatapathChoice, Failure> {
        match self.datapath() {
            DatapathChoice::Loopback(_) => Err(Failure::usage(
                "a switch inside this process (--datapath loopback) does not reach a peer",
            )
            .help(
                "leave --datapath out, or run both ends here: `uroce demo`, `uroce perf --local`",
            )),
            other => Ok(other),
        }
    }
}

/// `--drop` and UROCE_DROP are rules now.
fn refuse_drop(percent: Option<&str>) -> Result<(), Failure> {
    match percent {
        None => Ok(()),
        Some(percent) => Err(Failure::usage("--drop and UROCE_DROP have become fault rules").help(
            format!("write --fault 'rx drop {percent}%', or set UROCE_FAULT (docs/faults.md)"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn several_fault_rules_are_one_plan() {
        let global = |words: &[&str]| {
            let words = [&["uroce", "devices"], words].concat();
            Cli::try_parse_from(words).expect("good arguments").global.with_environment()
        };
        let two = ["--fault", "rx drop 1%", "--fault-seed", "7", "--fault", "tx -> drop count=1"];
        let faults = global(&two).expect("good rules").faults.expect("some");
        assert_eq!((faults.plan().len(), faults.seed()), (2, 7));
        assert_eq!(global(&[]).expect("no rules").faults, None);
        let typo = global(&["--fault", "rx dorp 1%"]).expect_err("a typo");
        assert!(typo.what.contains("line 1, column 4"), "{typo:?}");
    }

    #[test]
    fn the_flag_that_faults_have_replaced_names_them() {
        let cli = Cli::try_parse_from(["uroce", "devices", "--drop", "12.5"]).expect("it is known");
        let refused = cli.global.with_environment().expect_err("it is no more");
        assert!(refused.help.is_some_and(|help| help.contains("--fault 'rx drop 12.5%'")));
    }

    #[test]
    fn a_flag_wins_over_the_environment() {
        let cli = Cli::try_parse_from(["uroce", "devices", "--address", "127.0.0.5"]);
        let global = cli.expect("good arguments").global.with_environment().expect("no variables");
        assert_eq!(global.address, Some([127, 0, 0, 5].into()));
        assert_eq!(global.ib_dev, None);
    }

    #[test]
    fn there_is_one_engine_unless_more_are_asked_for() {
        let engines = |words: &[&str]| {
            let words = [&["uroce", "devices"], words].concat();
            Cli::try_parse_from(words).map(|cli| cli.global.engines().get())
        };
        assert_eq!(engines(&[]).expect("good arguments"), 1);
        assert_eq!(engines(&["--engines", "4"]).expect("good arguments"), 4);
        assert!(engines(&["--engines", "0"]).is_err() && engines(&["--engines", "65"]).is_err());
    }

    fn datapath(words: &[&str]) -> Global {
        let words = [&["uroce", "devices"], words].concat();
        Cli::try_parse_from(words).expect("good arguments").global
    }

    #[test]
    fn the_datapath_is_auto_unless_named() {
        assert_eq!(datapath(&[]).datapath().name(), "auto");
        for name in DatapathChoice::NAMES {
            assert_eq!(datapath(&["--datapath", name]).datapath().name(), *name);
        }
        assert!(Cli::try_parse_from(["uroce", "devices", "--datapath", "token-ring"]).is_err());
    }

    #[test]
    fn a_switch_in_the_process_reaches_no_peer() {
        assert!(datapath(&["--datapath", "udp"]).datapath_to_peers().is_ok());
        let refused = datapath(&["--datapath", "loopback"]).datapath_to_peers();
        assert_eq!(refused.expect_err("no peer there").exit, crate::failure::Exit::Usage);
    }
}
