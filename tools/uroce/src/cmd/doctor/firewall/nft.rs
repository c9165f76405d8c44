//! The rules of nftables, from `nft -j list ruleset` (libnftables-json(5)).

mod condition;

use condition::{applies, names_interface};
use serde_json::Value;

use super::verdict::{Applies, Chain, Packet, Rule, Verdict, Way};

/// The base chains that packets of this kind may pass, with their rules.
pub fn chains(json: &str, packet: &Packet) -> Vec<Chain> {
    let document: Value = serde_json::from_str(json).unwrap_or_default();
    let objects = document["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chains = objects.iter().map(|object| &object["chain"]);
    let chains = chains.filter(|chain| may_see(chain, packet));
    let based = chains.filter_map(|chain| Some((way(chain)?, chain)));
    based.map(|(way, chain)| read(way, chain, objects, packet)).collect()
}

fn way(chain: &Value) -> Option<Way> {
    match chain["hook"].as_str()? {
        "input" | "prerouting" | "ingress" => Some(Way::In),
        "output" | "postrouting" | "egress" => Some(Way::Out),
        _ => None,
    }
}

/// Whether such packets come to the chain, and it may drop them: one of type `nat` changes addresses only.
fn may_see(chain: &Value, packet: &Packet) -> bool {
    let is_family = match chain["family"].as_str() {
        Some("ip") => packet.is_ipv4,
        Some("ip6") => !packet.is_ipv4,
        Some("arp" | "bridge") => false,
        _ => true,
    };
    is_family && chain["type"] != "nat" && is_for(chain, &packet.netdev) != Some(false)
}

/// Whether the chain is for this interface; `None` where that is not said: versions of nft leave out `dev`.
fn is_for(chain: &Value, netdev: &str) -> Option<bool> {
    match chain["hook"].as_str() {
        Some("ingress" | "egress") => names_interface(&chain["dev"], netdev),
        _ => Some(true),
    }
}

fn read(way: Way, chain: &Value, objects: &[Value], packet: &Packet) -> Chain {
    let here = |rule: &&Value| {
        ["family", "table"].iter().all(|key| rule[key] == chain[key])
            && rule["chain"] == chain["name"]
    };
    let rules = objects.iter().map(|object| &object["rule"]).filter(here);
    let word = |key| chain[key].as_str().unwrap_or("?");
    let is_ours = is_for(chain, &packet.netdev).is_some();
    let doubt = (!is_ours).then(|| perhaps_of_another(&packet.netdev));
    Chain {
        way,
        name: format!("{} {} {}", word("family"), word("table"), word("name")),
        insert: if is_ours { "nft insert rule" } else { "nft list chain" },
        accept: if is_ours { "udp dport {port} accept" } else { "" },
        drops: chain["policy"] == "drop",
        rules: doubt.into_iter().chain(rules.map(|rule| of(rule, packet))).collect(),
    }
}

/// Stands before the rules of a chain that may be for another interface, and so may leave the packet alone.
fn perhaps_of_another(netdev: &str) -> Rule {
    let text = format!("whether it is for {netdev}");
    Rule { applies: Applies::Perhaps, verdict: Verdict::Accept, text }
}

fn of(rule: &Value, packet: &Packet) -> Rule {
    let parts = rule["expr"].as_array().map(Vec::as_slice).unwrap_or_default();
    let applies = parts.iter().map(|part| applies(part, packet)).min().unwrap_or(Applies::Yes);
    let verdict = parts.iter().map(verdict).find(|verdict| *verdict != Verdict::GoOn);
    Rule {
        applies,
        verdict: verdict.unwrap_or(Verdict::GoOn),
        text: format!("rule {}", rule["handle"].as_u64().unwrap_or(0)),
    }
}

fn verdict(part: &Value) -> Verdict {
    let is = |name| part.get(name).is_some();
    if is("accept") {
        Verdict::Accept
    } else if is("drop") || is("reject") {
        Verdict::Drop
    } else if is("jump") || is("goto") || is("vmap") || is("queue") || is("xt") {
        Verdict::Elsewhere
    } else {
        Verdict::GoOn
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::verdict::Judgement;
    use super::*;

    fn judge(policy: &str, rules: &[Value]) -> Judgement {
        let mut objects = vec![json!({"chain": {
            "family": "inet", "table": "f", "name": "in", "hook": "input", "policy": policy}})];
        let rule = |expr| json!({"rule": {"family": "inet", "table": "f", "chain": "in", "handle": 7, "expr": expr}});
        objects.extend(rules.iter().map(rule));
        let packet = Packet { port: 4791, netdev: "eth0".to_owned(), is_ipv4: true };
        let chains = chains(&json!({ "nftables": objects }).to_string(), &packet);
        assert_eq!(chains.len(), 1);
        chains[0].judge()
    }

    fn port(protocol: &str, right: Value, verdict: &str) -> Value {
        let left = json!({"payload": {"protocol": protocol, "field": "dport"}});
        json!([{"match": {"op": "==", "left": left, "right": right}}, {"counter": {}}, {verdict: null}])
    }

    fn meta(key: &str, right: &str) -> Value {
        json!([{"match": {"op": "==", "left": {"meta": {"key": key}}, "right": right}}, {"accept": null}])
    }

    #[test]
    fn the_usual_server_rules_block_and_one_rule_opens() {
        let state = json!([
            {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}},
            {"accept": null}]);
        let usual = [state, meta("iifname", "lo"), port("tcp", 22.into(), "accept")];
        assert_eq!(judge("drop", &usual), Judgement::Blocked("the policy".to_owned()));
        for right in [json!(4791), json!({"set": [53, 4791]}), json!({"range": [4000, 5000]})] {
            let opened = [&usual[..], &[port("udp", right, "accept")]].concat();
            assert_eq!(judge("drop", &opened), Judgement::Open);
        }
    }

    #[test]
    fn each_hook_has_its_way() {
        let hook =
            |hook| json!({"nftables": [{"chain": {"name": "c", "hook": hook, "policy": "drop"}}]});
        let packet = Packet { port: 4791, netdev: "eth0".to_owned(), is_ipv4: true };
        let ways = |name| chains(&hook(name).to_string(), &packet).first().map(|chain| chain.way);
        assert_eq!([ways("input"), ways("prerouting")], [Some(Way::In); 2]);
        assert_eq!([ways("output"), ways("postrouting")], [Some(Way::Out); 2]);
        assert_eq!(ways("forward"), None, "packets between other hosts");
    }

    #[test]
    fn a_rule_for_the_port_blocks() {
        let blocked = judge("accept", &[port("udp", 4791.into(), "drop")]);
        assert_eq!(blocked, Judgement::Blocked("rule 7".to_owned()));
        assert_eq!(judge("accept", &[port("udp", 53.into(), "drop")]), Judgement::Open);
    }

    #[test]
    fn what_is_not_understood_is_unclear() {
        let named = port("udp", "@allowed".into(), "accept");
        assert_eq!(judge("drop", &[named]), Judgement::Unclear("rule 7".to_owned()));
        let jump = json!([{"jump": {"target": "elsewhere"}}]);
        assert!(matches!(judge("accept", &[jump]), Judgement::Unclear(_)));
    }

    /// A rule of one condition.
    fn rule(op: &str, left: Value, right: Value, verdict: &str) -> Value {
        json!([{"match": {"op": op, "left": left, "right": right}}, {verdict: null}])
    }

    fn payload(protocol: &str, field: &str) -> Value {
        json!({"payload": {"protocol": protocol, "field": field}})
    }

    /// What is read of one base chain for a packet on eth0.
    fn of_chain(chain: Value, is_ipv4: bool) -> Vec<Chain> {
        let packet = Packet { port: 4791, netdev: "eth0".to_owned(), is_ipv4 };
        chains(&json!({"nftables": [{ "chain": chain }]}).to_string(), &packet)
    }

    #[test]
    fn a_condition_of_another_protocol_does_not_hold_whatever_its_operator() {
        let flags = json!({"&": [payload("tcp", "flags"), ["syn", "ack"]]});
        for (left, right) in [
            (payload("tcp", "dport"), json!({"set": [22, 80]})),
            (payload("tcp", "flags"), json!("syn")),
            (flags, json!("syn")),
            (payload("icmp", "type"), json!("echo-request")),
            (payload("ip6", "nexthdr"), json!("tcp")),
            (json!({"tcp option": {"name": "maxseg", "field": "size"}}), json!(1300)),
        ] {
            for op in ["==", "!=", "in", "<", ">"] {
                let drops = rule(op, left.clone(), right.clone(), "drop");
                assert_eq!(judge("accept", &[drops]), Judgement::Open, "{left} {op}");
                let accepts = rule(op, left.clone(), right.clone(), "accept");
                let by_policy = Judgement::Blocked("the policy".to_owned());
                assert_eq!(judge("drop", &[accepts]), by_policy, "{left} {op}");
            }
        }
    }

    #[test]
    fn a_port_is_compared_as_the_operator_says() {
        let port =
            |op, right: u16, verdict| rule(op, payload("udp", "dport"), right.into(), verdict);
        for (op, right) in [(">", 4000), (">=", 4791), ("<", 5000), ("<=", 4791), ("!=", 53)] {
            assert_eq!(
                judge("drop", &[port(op, right, "accept")]),
                Judgement::Open,
                "{op} {right}"
            );
        }
        for (op, right) in [(">", 4791), (">=", 5000), ("<", 4791), ("<=", 4000), ("!=", 4791)] {
            assert_eq!(
                judge("accept", &[port(op, right, "drop")]),
                Judgement::Open,
                "{op} {right}"
            );
        }
        let state = rule("!", json!({"ct": {"key": "state"}}), json!(["established"]), "drop");
        assert_eq!(judge("accept", &[state]), Judgement::Blocked("rule 7".to_owned()));
    }

    #[test]
    fn a_trailing_star_is_any_rest_of_a_name() {
        let name =
            |op, right: Value| rule(op, json!({"meta": {"key": "iifname"}}), right, "accept");
        for right in [json!("e*"), json!("eth0*"), json!({"set": ["lo", "et*"]}), json!("*")] {
            assert_eq!(judge("drop", &[name("==", right.clone())]), Judgement::Open, "{right}");
        }
        for right in [json!("l*"), json!("e\\*"), json!("eth"), json!(7)] {
            let found = judge("drop", &[name("==", right.clone())]);
            assert!(matches!(found, Judgement::Blocked(_)), "{right}");
        }
        assert!(matches!(judge("drop", &[name("!=", json!("e*"))]), Judgement::Blocked(_)));
    }

    #[test]
    fn a_chain_of_another_family_or_type_is_not_passed() {
        let chain = |family, kind| {
            json!({"family": family, "table": "f", "name": "in", "type": kind, "hook": "input",
                   "policy": "drop"})
        };
        for (family, v4, v6) in
            [("inet", 1, 1), ("ip", 1, 0), ("ip6", 0, 1), ("arp", 0, 0), ("bridge", 0, 0)]
        {
            let seen = |is_ipv4| of_chain(chain(family, "filter"), is_ipv4).len();
            assert_eq!((seen(true), seen(false)), (v4, v6), "{family}");
        }
        assert_eq!(of_chain(chain("ip", "nat"), true), [], "Docker's, say");
        assert_eq!(of_chain(chain("ip", "route"), true).len(), 1);
    }

    #[test]
    fn a_chain_of_another_device_is_not_passed() {
        let chain = |family, dev: Value| {
            json!({"family": family, "table": "f", "name": "in", "type": "filter",
                   "hook": "ingress", "dev": dev, "policy": "drop"})
        };
        for family in ["netdev", "inet"] {
            for dev in [json!("eth7"), json!(["lo", "eth7"])] {
                assert_eq!(of_chain(chain(family, dev), true), [], "{family}");
            }
            for dev in [json!("eth0"), json!(["lo", "eth0"]), json!("eth*")] {
                let found = of_chain(chain(family, dev), true);
                assert_eq!(found[0].judge(), Judgement::Blocked("the policy".to_owned()));
            }
            let unnamed = &of_chain(chain(family, Value::Null), true)[0];
            assert_eq!(unnamed.judge(), Judgement::Unclear("whether it is for eth0".to_owned()));
            assert_eq!(unnamed.opening(4791), format!("sudo nft list chain {family} f in"));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,80}") {
            let packet = Packet { port: 4791, netdev: String::new(), is_ipv4: true };
            prop_assert!(chains(&text, &packet).is_empty());
        }
    }
}
