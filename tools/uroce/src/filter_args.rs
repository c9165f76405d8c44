//! Which packets of a capture: the options that every command over captures has.

use std::net::IpAddr;

use clap::Args;
use uroce_analyze::{Filter, FrameRange, OpcodeFilter, PsnRange, parse_qpn};
use uroce_wire::Qpn;

/// Options that choose packets. Each may be given several times: one value must fit. All options that are given must fit.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which packets")]
pub struct FilterArgs {
    /// Only packets to or from this queue pair: 17 or 0x11
    #[arg(long, value_name = "N", value_parser = parse_qpn)]
    pub qp: Vec<Qpn>,
    /// Only packets to or from this address
    #[arg(long, value_name = "IP")]
    pub host: Vec<IpAddr>,
    /// Only this kind: send, write-first, read-req, read-resp, ack, nak, rnr, atomic, cnp, cm, req, rep, ...,
    /// or the number of an opcode
    #[arg(long, value_name = "NAME")]
    pub opcode: Vec<OpcodeFilter>,
    /// Only these PSNs, both included: 0x100..0x17f
    #[arg(long, value_name = "A..B")]
    pub psn: Vec<PsnRange>,
    /// Only packets in these frames, both included: 40..60
    #[arg(long, value_name = "A..B")]
    pub frames: Vec<FrameRange>,
    /// Only signs of trouble: what was sent again, NAKs, RNR NAKs, damaged and dropped packets, findings
    #[arg(long)]
    pub errors: bool,
}

impl FilterArgs {
    /// The choice.
    pub fn filter(&self) -> Filter {
        let filter = self.qp.iter().fold(Filter::default(), |filter, qpn| filter.with_qpn(*qpn));
        let filter = self.host.iter().fold(filter, |filter, host| filter.with_host(*host));
        let filter = self.opcode.iter().fold(filter, |filter, opcode| filter.with_opcode(*opcode));
        let filter = self.psn.iter().fold(filter, |filter, psns| filter.with_psns(*psns));
        let filter = self.frames.iter().fold(filter, |filter, frames| filter.with_frames(*frames));
        if self.errors { filter.with_only_errors() } else { filter }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        filter: FilterArgs,
    }

    fn parse(words: &[&str]) -> Result<FilterArgs, clap::Error> {
        let words = [&["test"], words].concat();
        Words::try_parse_from(words).map(|words| words.filter)
    }

    #[test]
    fn no_option_chooses_all() {
        assert!(parse(&[]).expect("good words").filter().is_empty());
    }

    #[test]
    fn every_option_may_come_again() {
        let words = ["--qp", "17", "--qp", "0x12", "--opcode", "nak", "--opcode", "rnr"];
        let filter = parse(&words).expect("good words").filter();
        assert_eq!(filter.qpns(), [Qpn::new(17), Qpn::new(18)]);
        let more = ["--host", "10.0.0.1", "--psn", "1..2", "--errors"];
        assert_ne!(parse(&more).expect("good words").filter(), Filter::default());
    }

    #[test]
    fn a_wrong_value_says_what_is_right() {
        for (words, right) in [
            (["--qp", "xyz"], "0x11"),
            (["--psn", "1-2"], "both included"),
            (["--frames", "2..1"], "both included"),
            (["--opcode", "sendd"], "send-first"),
        ] {
            let text = parse(&words).expect_err("wrong words").to_string();
            assert!(text.contains(right), "{text}");
        }
    }
}
