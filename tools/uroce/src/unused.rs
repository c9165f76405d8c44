//! Options of every command that mean nothing to the one they were given to: whoever gives one expects something to happen.

use crate::cli::Command;
use crate::cmd::sim::SimArgs;
use crate::failure::Failure;
use crate::global::Global;

/// Refuses what the command line has and `command` does not look at. What the environment has is for other commands.
///
/// # Errors
/// Exit 2.
pub fn refuse(command: &Command, global: &Global) -> Result<(), Failure> {
    let has_address = global.address.is_some() || global.ib_dev.is_some();
    if has_address && !takes_address(command) {
        let refused =
            Failure::usage("this command opens no device that --address or -d could name");
        return Err(match command {
            Command::Demo(_) => refused.help("the two devices of the demo are at --a and --b"),
            _ => refused,
        });
    }
    if let Command::Sim(args) = command {
        return refuse_of_sim(args, global);
    }
    if global.pcap.is_some() && !sends_packets(command) {
        let refused =
            Failure::usage("this command sends and receives nothing that --pcap could record");
        return Err(match command {
            Command::Capture(_) => refused.help("it writes what it captures to the file of -w"),
            _ => refused,
        });
    }
    if !global.fault.is_empty() && !sends_packets(command) {
        return Err(Failure::usage(
            "this command sends and receives nothing that --fault could disturb",
        ));
    }
    Ok(())
}

/// A simulation is drawn from its seed alone.
fn refuse_of_sim(args: &SimArgs, global: &Global) -> Result<(), Failure> {
    if global.pcap.is_some() && !args.records() {
        return Err(Failure::usage(
            "packets are recorded by `uroce sim replay N --pcap FILE` only",
        ));
    }
    let unused = [
        ("--fault", !global.fault.is_empty()),
        ("--fault-seed", global.fault_seed.is_some()),
        ("--roce-port", global.roce_port.is_some()),
        ("--datapath", global.datapath.is_some()),
        ("--engines", global.engines.is_some()),
        ("--no-split-writes", global.no_split_writes),
    ];
    match unused.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "a simulation is drawn from its seed, its faults too: {option} changes nothing in it"
        ))
        .help(format!("leave {option} out"))),
        None => Ok(()),
    }
}

/// What sends packets, or says itself what it makes of these options.
fn sends_packets(command: &Command) -> bool {
    matches!(
        command,
        Command::Conform(_)
            | Command::Demo(_)
            | Command::Fault(_)
            | Command::Perf(_)
            | Command::Pingpong(_)
            | Command::Replay(_)
            | Command::Rping(_)
            | Command::Run(_)
    )
}

fn takes_address(command: &Command) -> bool {
    !matches!(
        command,
        Command::Analyze(_)
            | Command::Capture(_)
            | Command::Completions(_)
            | Command::Demo(_)
            | Command::Dissect(_)
            | Command::Fault(_)
            | Command::Ladder(_)
            | Command::Man(_)
            | Command::Sim(_)
            | Command::View(_)
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn refused(words: &str) -> Option<Failure> {
        let cli = Cli::try_parse_from(format!("uroce {words}").split(' ')).expect("good arguments");
        refuse(&cli.command, &cli.global).err()
    }

    #[test]
    fn what_a_command_does_not_look_at_is_refused() {
        for words in [
            "capture --pcap file",
            "analyze a.pcap --pcap file",
            "doctor --pcap file",
            "devices --fault rx_drop",
            "analyze a.pcap --address 10.0.0.1",
            "view a.pcap -d uroce0",
            "demo --address 127.0.0.1",
            "capture --address 10.0.0.1",
            "fault check drop -d uroce0",
            "sim run --seed 7 --address 10.0.0.1",
            "sim run --seed 7 --pcap file",
            "sim sweep --seeds 0..2 --pcap file",
            "sim replay 7 --pcap file --fault rx_drop",
            "sim run --seed 7 --fault-seed 1",
            "sim run --seed 7 --roce-port 5000",
            "sim run --seed 7 --engines 4",
            "sim sweep --seeds 0..2 --datapath udp",
            "sim replay 7 --pcap file --no-split-writes",
        ] {
            let failure = refused(words).unwrap_or_else(|| panic!("{words}"));
            assert_eq!(failure.exit, crate::failure::Exit::Usage, "{words}");
        }
        let capture = refused("capture --pcap file").expect("refused");
        assert!(capture.help.is_some_and(|help| help.contains("-w")));
        let demo = refused("demo --address 127.0.0.1").expect("refused");
        assert!(demo.help.is_some_and(|help| help.contains("--a and --b")));
        let sim = refused("sim run --seed 7 --engines 4").expect("refused");
        assert!(sim.what.contains("--engines") && sim.help.is_some(), "{sim:?}");
    }

    #[test]
    fn what_a_command_looks_at_is_not() {
        for words in [
            "demo --pcap file",
            "demo --fault rx_drop",
            "pingpong rc --pcap file --address 127.0.0.1",
            "perf write bw --fault rx_drop -d uroce0",
            "doctor --address 127.0.0.1",
            "devinfo -d uroce0",
            "analyze a.pcap",
            "analyze a.pcap --roce-port 5000",
            "sim replay 7 --pcap file",
            "sim run --seed 7 --json --log info",
        ] {
            assert_eq!(refused(words), None, "{words}");
        }
    }
}
