//! Options of every command that mean nothing to the one they were given to: whoever gives one expects something to happen.

use crate::cli::Command;
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
            | Command::Sim(_)
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
        ] {
            let failure = refused(words).unwrap_or_else(|| panic!("{words}"));
            assert_eq!(failure.exit, crate::failure::Exit::Usage, "{words}");
        }
        let capture = refused("capture --pcap file").expect("refused");
        assert!(capture.help.is_some_and(|help| help.contains("-w")));
        let demo = refused("demo --address 127.0.0.1").expect("refused");
        assert!(demo.help.is_some_and(|help| help.contains("--a and --b")));
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
        ] {
            assert_eq!(refused(words), None, "{words}");
        }
    }
}
