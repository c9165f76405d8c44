//! The rules of iptables, from `iptables-save -t filter`.

use super::verdict::{Applies, Chain, Packet, Rule, Verdict, Way};

/// The chains INPUT and OUTPUT with their rules, as far as they are there; `insert` is the command that adds a rule.
pub fn chains(text: &str, insert: &'static str, packet: &Packet) -> Vec<Chain> {
    let both = [(Way::In, "INPUT"), (Way::Out, "OUTPUT")];
    both.into_iter().filter_map(|(way, name)| chain(text, insert, packet, (way, name))).collect()
}

fn chain(
    text: &str,
    insert: &'static str,
    packet: &Packet,
    (way, name): (Way, &str),
) -> Option<Chain> {
    let start = format!(":{name} ");
    let policy = text.lines().find_map(|line| line.strip_prefix(&start))?;
    let start = format!("-A {name}");
    let rules = text.lines().filter_map(|line| line.strip_prefix(&start));
    Some(Chain {
        way,
        name: name.to_owned(),
        insert,
        accept: "-p udp --dport {port} -j ACCEPT",
        drops: policy.starts_with("DROP"),
        rules: rules.map(|line| rule(line, packet, &start)).collect(),
    })
}

fn rule(line: &str, packet: &Packet, start: &str) -> Rule {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (mut applies, mut verdict, mut at) = (Applies::Yes, Verdict::GoOn, 0);
    while let Some((&word, negated)) =
        words.get(at).map(|word| (word, at > 0 && words[at - 1] == "!"))
    {
        let value = words.get(at + 1).copied().unwrap_or_default();
        let (holds, used) = match word {
            "-j" | "-g" => {
                verdict = target(value);
                // What follows are options of the target.
                break;
            }
            "!" => (Some(true), 1),
            "-m" => (Some(true), 2),
            "-p" => (Some(matches!(value, "udp" | "all")), 2),
            "-i" | "-o" => (Some(matches_interface(value, &packet.netdev)), 2),
            "--dport" => (Some(has_port(value, packet.port)), 2),
            "--dports" => (Some(value.split(',').any(|part| has_port(part, packet.port))), 2),
            "--ctstate" | "--state" => (Some(value.split(',').any(|state| state == "NEW")), 2),
            _ => (None, 1),
        };
        applies = applies.min(match holds {
            None => Applies::Perhaps,
            Some(holds) if word != "!" && negated && holds => Applies::No,
            Some(holds) if holds || (word != "!" && negated) => Applies::Yes,
            Some(_) => Applies::No,
        });
        at += used;
    }
    Rule { applies, verdict, text: format!("rule \"{start}{line}\"") }
}

fn target(name: &str) -> Verdict {
    match name {
        "ACCEPT" => Verdict::Accept,
        "DROP" | "REJECT" => Verdict::Drop,
        "LOG" | "NFLOG" | "MARK" | "CONNMARK" | "" => Verdict::GoOn,
        _ => Verdict::Elsewhere,
    }
}

/// `eth0`, or `eth+` for all that start so.
fn matches_interface(pattern: &str, netdev: &str) -> bool {
    match pattern.strip_suffix('+') {
        Some(start) => netdev.starts_with(start),
        None => pattern == netdev,
    }
}

/// `4791`, or `4000:5000` for a range.
fn has_port(text: &str, port: u16) -> bool {
    let (from, to) = text.split_once(':').unwrap_or((text, text));
    let number =
        |text: &str, default| if text.is_empty() { Some(default) } else { text.parse().ok() };
    match (number(from, 0), number(to, u16::MAX)) {
        (Some(from), Some(to)) => (from..=to).contains(&port),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::verdict::Judgement;
    use super::*;

    fn judge(policy: &str, rules: &[&str]) -> Judgement {
        let rules: String = rules.iter().map(|rule| format!("-A INPUT {rule}\n")).collect();
        let text = format!(
            "# Generated\n*filter\n:INPUT {policy} [0:0]\n:FORWARD DROP [0:0]\n{rules}COMMIT\n"
        );
        let packet = Packet { port: 4791, netdev: "eth0".to_owned(), is_ipv4: true };
        chains(&text, "iptables -I", &packet).first().expect("an INPUT chain").judge()
    }

    const USUAL: [&str; 3] = [
        "-i lo -j ACCEPT",
        "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-p tcp -m tcp --dport 22 -j ACCEPT",
    ];

    #[test]
    fn the_usual_server_rules_block_and_one_rule_opens() {
        assert_eq!(judge("DROP", &USUAL), Judgement::Blocked("the policy".to_owned()));
        let rejected = [&USUAL[..], &["-j REJECT --reject-with icmp-host-prohibited"]].concat();
        assert!(matches!(judge("ACCEPT", &rejected), Judgement::Blocked(_)));
        for opening in [
            "-p udp -m udp --dport 4791 -j ACCEPT",
            "-p udp -m multiport --dports 53,4791 -j ACCEPT",
            "-i eth+ -p udp -m udp --dport 4000:5000 -j ACCEPT",
        ] {
            let rules = [&USUAL[..], &[opening]].concat();
            assert_eq!(judge("DROP", &rules), Judgement::Open, "{opening}");
        }
    }

    #[test]
    fn rules_on_the_way_out_are_judged_by_their_own_chain() {
        let text = ":INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -o eth0 -p udp -m udp --dport 4791 -j DROP\n";
        let packet = Packet { port: 4791, netdev: "eth0".to_owned(), is_ipv4: true };
        let found = chains(text, "iptables -I", &packet);
        assert_eq!(found.iter().map(|chain| chain.way).collect::<Vec<_>>(), [Way::In, Way::Out]);
        assert_eq!(found[0].judge(), Judgement::Open);
        assert!(matches!(found[1].judge(), Judgement::Blocked(rule) if rule.contains("-A OUTPUT")));
    }

    #[test]
    fn negation_turns_a_condition_round() {
        assert_eq!(judge("ACCEPT", &["! -i eth0 -j DROP"]), Judgement::Open);
        assert!(matches!(judge("ACCEPT", &["! -i eth1 -j DROP"]), Judgement::Blocked(_)));
        assert_eq!(judge("ACCEPT", &["-p udp ! --dport 4791 -j DROP"]), Judgement::Open);
    }

    #[test]
    fn what_is_not_understood_is_unclear() {
        let source = "-s 10.0.0.0/8 -p udp -m udp --dport 4791 -j ACCEPT";
        assert!(matches!(judge("DROP", &[source]), Judgement::Unclear(_)));
        assert!(matches!(judge("ACCEPT", &["-j ufw-before-input"]), Judgement::Unclear(_)));
        assert_eq!(chains("", "", &Packet { port: 1, netdev: String::new(), is_ipv4: true }), []);
    }

    proptest! {
        #[test]
        fn any_rule_is_read_without_panic(line in "[-!a-zA-Z0-9:,+ ]{0,60}") {
            let text = format!(":INPUT ACCEPT [0:0]\n-A INPUT {line}\n");
            let packet = Packet { port: 4791, netdev: "eth0".to_owned(), is_ipv4: true };
            let chains = chains(&text, "iptables -I", &packet);
            prop_assert_eq!(chains.first().map(|chain| chain.rules.len()), Some(1));
        }
    }
}
