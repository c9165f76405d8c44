//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::cmd;
use crate::examples;
use crate::failure::Failure;
use crate::global::Global;

const AFTER: &str = "\
Exit codes: 0 all well (also after Ctrl-C, if something was measured), 1 the test failed, \
2 wrong usage, 3 this machine lacks something, 4 the peer is missing or went away.
Environment: UROCE_DEVICE (name or address), UROCE_DATAPATH, UROCE_ENGINES, UROCE_ROCE_PORT, \
UROCE_SPLIT_WRITES, UROCE_PCAP, UROCE_FAULT, UROCE_FAULT_SEED, UROCE_LOG, UROCE_SERVE_SOCKET, \
NO_COLOR. Flags win. `uroce run` passes them on.";

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
    /// Hold the RoCE port of addresses for processes of all users (docs/serve.md)
    Serve(cmd::serve::ServeArgs),
    /// Simulate a network of these NICs from one seed, with faults, and check that its invariants hold (docs/trust.md)
    Sim(cmd::sim::SimArgs),
    /// Test a RoCEv2 implementation rule by rule, with hand-made packets (docs/conform)
    Conform(Box<cmd::conform::ConformArgs>),
    /// Write the manual pages of all commands into a folder
    #[command(after_help = examples::MAN)]
    Man(cmd::man::ManArgs),
    /// Print the completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(cmd::completions::CompletionsArgs),
}

impl Command {
    /// What is logged where nobody asks for more or less. The devices of a simulation are in trouble all the time.
    pub fn log_level(&self) -> &'static str {
        if matches!(self, Command::Sim(_)) { "error" } else { "warn" }
    }

    /// Runs the command.
    ///
    /// # Errors
    /// What the command says.
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self {
            Command::Capture(args) => cmd::capture::run(&args, global),
            Command::Conform(args) => cmd::conform::run(&args, global),
            Command::Demo(args) => cmd::demo::run(&args, global),
            Command::Devices => cmd::devices::run(global),
            Command::Devinfo(args) => cmd::devinfo::run(&args, global),
            Command::Dissect(args) => cmd::dissect::run(&args, global),
            Command::Doctor(args) => cmd::doctor::run(&args, global),
            Command::Gids => cmd::gids::run(global),
            Command::Pingpong(args) => cmd::pingpong::run(&args, global),
            Command::Rping(args) => cmd::rping::run(&args, global),
            Command::Perf(args) => cmd::perf::run(&args, global),
            Command::Run(args) => cmd::run::run(&args, global),
            Command::Res(args) => cmd::res::run(&args, global),
            Command::Stat(args) => cmd::stat::run(&args, global),
            Command::Analyze(args) => cmd::analyze::run(&args, global),
            Command::Ladder(args) => cmd::ladder::run(&args, global),
            Command::Replay(args) => cmd::replay::run(&args, global),
            Command::View(args) => cmd::view::run(&args, global),
            Command::Top(args) => cmd::top::run(&args, global),
            Command::Fault(args) => cmd::fault::run(&args, global),
            Command::Serve(args) => cmd::serve::run(&args, global),
            Command::Sim(args) => cmd::sim::run(&args, global),
            Command::Man(args) => cmd::man::run(&args, global, Cli::command()),
            Command::Completions(args) => cmd::completions::run(&args, global, Cli::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use uroce_device::DatapathChoice;

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
