//! Whether this host's firewall lets RoCE in and out. Best effort: what it cannot decide, it says.

mod iptables;
mod nft;
mod verdict;

use std::ffi::OsStr;
use std::io::{Error, ErrorKind};
use std::process::Command;

use verdict::{Chain, Judgement, Packet, Way};

use super::finding::Finding;
use super::subject::Subject;

/// Asks nft and iptables for their rules.
pub fn examine(subject: &Subject) -> Finding {
    let is_ipv4 = subject.address.is_ipv4();
    let packet = Packet { port: subject.port, netdev: subject.netdev().to_owned(), is_ipv4 };
    let nft = rules("nft", &["-j", "list", "ruleset"]);
    let (program, insert) = match is_ipv4 {
        true => ("iptables-save", "iptables -I"),
        false => ("ip6tables-save", "ip6tables -I"),
    };
    let iptables = rules(program, &["-t", "filter"]);
    let mut chains = Vec::new();
    if let ProgramOutput::Rules(text) = &nft {
        chains.extend(nft::chains(text, &packet));
    }
    if let ProgramOutput::Rules(text) = &iptables {
        chains.extend(iptables::chains(text, insert, &packet));
    }
    report(&chains, &[("nft", nft), (program, iptables)], &packet)
}

/// What a program said.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProgramOutput {
    Rules(String),
    NotInstalled,
    Refused(String),
}

fn rules(program: &str, args: &[&str]) -> ProgramOutput {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => {
            ProgramOutput::Rules(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            ProgramOutput::Refused(
                said.lines().next().unwrap_or("no reason given").trim().to_owned(),
            )
        }
        Err(error) => not_run(program, &error, &std::env::var_os("PATH").unwrap_or_default()),
    }
}

/// Why it did not run. The search of `path` is refused also by a folder that this user may not look into: what is not
/// seen in any of them is not installed for him.
fn not_run(program: &str, error: &Error, path: &OsStr) -> ProgramOutput {
    let is_seen = || std::env::split_paths(path).any(|folder| folder.join(program).exists());
    match error.kind() {
        ErrorKind::NotFound => ProgramOutput::NotInstalled,
        ErrorKind::PermissionDenied if !is_seen() => ProgramOutput::NotInstalled,
        _ => ProgramOutput::Refused(error.to_string()),
    }
}

fn report(chains: &[Chain], seen: &[(&str, ProgramOutput)], packet: &Packet) -> Finding {
    let port = packet.port;
    let judged: Vec<_> = chains.iter().map(|chain| (chain, chain.judge())).collect();
    let first = |wanted: fn(&Judgement) -> bool| judged.iter().find(|(_, found)| wanted(found));
    if let Some((chain, Judgement::Blocked(by))) = first(|j| matches!(j, Judgement::Blocked(_))) {
        let what = format!("UDP {port} is dropped {} by {by} in {}", words(chain.way), chain.name);
        return Finding::problem("firewall", what).repair(chain.opening(port));
    }
    if let Some((chain, Judgement::Unclear(by))) = first(|j| matches!(j, Judgement::Unclear(_))) {
        let way = words(chain.way);
        let what = format!("UDP {port} may be dropped {way}: cannot decide {by} in {}", chain.name);
        return Finding::note("firewall", what).repair(chain.opening(port));
    }
    let refused = seen.iter().find_map(|(program, seen)| match seen {
        ProgramOutput::Refused(why) => Some(format!("cannot see the rules: {program}: {why}")),
        _ => None,
    });
    if let Some(what) = refused {
        return Finding::note("firewall", what).repair("sudo nft list ruleset");
    }
    if seen.iter().all(|(_, seen)| *seen == ProgramOutput::NotInstalled) {
        let what = "cannot see rules, if there are any: neither nft nor iptables is installed";
        return Finding::note("firewall", what);
    }
    Finding::ok("firewall", format!("no rule here drops UDP {port}, neither way"))
}

fn words(way: Way) -> &'static str {
    match way {
        Way::In => "on its way in",
        Way::Out => "on its way out",
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    fn packet() -> Packet {
        Packet { port: 4791, netdev: "eth0".to_owned(), is_ipv4: true }
    }

    fn of_nft(text: &str) -> Finding {
        let chains = nft::chains(text, &packet());
        report(&chains, &[("nft", ProgramOutput::Rules(text.to_owned()))], &packet())
    }

    #[test]
    fn what_cannot_be_seen_is_said() {
        let hidden =
            report(&[], &[("nft", ProgramOutput::Refused("not permitted".to_owned()))], &packet());
        assert_eq!(hidden.state, State::Note);
        assert!(hidden.what.contains("not permitted"), "{hidden}");
        let absent = report(&[], &[("nft", ProgramOutput::NotInstalled)], &packet());
        assert!(absent.what.contains("neither"), "{absent}");
        assert_eq!(of_nft(r#"{"nftables": []}"#).state, State::Ok);
    }

    #[test]
    fn a_refused_search_is_no_refused_program() {
        let refused = Error::from(ErrorKind::PermissionDenied);
        let path = OsStr::new("/no/such/folder:/etc");
        assert_eq!(not_run("no-such-program", &refused, path), ProgramOutput::NotInstalled);
        assert!(matches!(not_run("passwd", &refused, path), ProgramOutput::Refused(_)));
        let other = Error::from(ErrorKind::OutOfMemory);
        assert!(matches!(not_run("no-such-program", &other, path), ProgramOutput::Refused(_)));
    }

    #[test]
    fn a_dropping_policy_is_repaired_by_one_command() {
        let text = r#"{"nftables": [
            {"chain": {"family": "inet", "table": "filter", "name": "input", "hook": "input",
                       "policy": "drop"}},
            {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [
                {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}},
                           "right": 22}}, {"accept": null}]}}]}"#;
        let finding = of_nft(text);
        assert_eq!(finding.state, State::Problem, "{finding}");
        assert_eq!(
            finding.repair.as_deref(),
            Some("sudo nft insert rule inet filter input udp dport 4791 accept")
        );
    }

    #[test]
    fn a_rule_on_the_way_out_is_a_problem_too() {
        let text = r#"{"nftables": [
            {"chain": {"family": "inet", "table": "f", "name": "out", "hook": "output", "policy": "accept"}},
            {"rule": {"family": "inet", "table": "f", "chain": "out", "handle": 4, "expr": [
                {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}},
                           "right": 4791}}, {"drop": null}]}}]}"#;
        let finding = of_nft(text);
        assert!(finding.state == State::Problem && finding.what.contains("way out"), "{finding}");
        assert_eq!(
            finding.repair.as_deref(),
            Some("sudo nft insert rule inet f out udp dport 4791 accept")
        );
    }

    #[test]
    fn a_missing_program_and_a_failing_one_are_told_apart() {
        assert_eq!(rules("no-such-program-anywhere", &[]), ProgramOutput::NotInstalled);
        assert!(matches!(rules("false", &[]), ProgramOutput::Refused(_)));
        assert_eq!(rules("echo", &["x"]), ProgramOutput::Rules("x\n".to_owned()));
    }
}
