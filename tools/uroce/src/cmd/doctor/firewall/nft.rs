//! The rules of nftables, from `nft -j list ruleset` (libnftables-json(5)).

use serde_json::Value;

use super::verdict::{Applies, Chain, Packet, Rule, Verdict, Way};

/// The base chains that packets of this host pass, with their rules.
pub fn chains(json: &str, packet: &Packet) -> Vec<Chain> {
    let document: Value = serde_json::from_str(json).unwrap_or_default();
    let objects = document["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chains = objects.iter().map(|object| &object["chain"]);
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

fn read(way: Way, chain: &Value, objects: &[Value], packet: &Packet) -> Chain {
    let here = |rule: &&Value| {
        ["family", "table"].iter().all(|key| rule[key] == chain[key])
            && rule["chain"] == chain["name"]
    };
    let rules = objects.iter().map(|object| &object["rule"]).filter(here);
    let word = |key| chain[key].as_str().unwrap_or("?");
    Chain {
        way,
        name: format!("{} {} {}", word("family"), word("table"), word("name")),
        insert: "nft insert rule",
        accept: "udp dport {port} accept",
        drops: chain["policy"] == "drop",
        rules: rules.map(|rule| of(rule, packet)).collect(),
    }
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

/// Whether one part of a rule holds for the packet; what is no condition always does.
fn applies(part: &Value, packet: &Packet) -> Applies {
    let Some(condition) = part.get("match") else {
        let known = ["accept", "drop", "reject", "counter", "log", "jump", "goto", "return"];
        let is_known = known.iter().any(|name| part.get(name).is_some());
        return if is_known { Applies::Yes } else { Applies::Perhaps };
    };
    let right = &condition["right"];
    let holds = match subject(&condition["left"]) {
        MatchField::Port => contains(right, &packet.port.into()),
        MatchField::ForeignPort => Some(false),
        MatchField::Protocol => contains(right, &"udp".into()),
        MatchField::Interface => contains(right, &packet.netdev.as_str().into()),
        MatchField::Connection => contains(right, &"new".into()),
        MatchField::Other => None,
    };
    match (holds, condition["op"].as_str()) {
        (None, _) => Applies::Perhaps,
        (Some(holds), Some("!=")) => {
            if holds {
                Applies::No
            } else {
                Applies::Yes
            }
        }
        (Some(holds), _) => {
            if holds {
                Applies::Yes
            } else {
                Applies::No
            }
        }
    }
}

/// What a condition looks at.
enum MatchField {
    Port,
    ForeignPort,
    Protocol,
    Interface,
    Connection,
    Other,
}

fn subject(left: &Value) -> MatchField {
    let (payload, meta) = (&left["payload"], left["meta"]["key"].as_str());
    match (payload["protocol"].as_str(), payload["field"].as_str(), meta) {
        (Some("udp" | "th"), Some("dport"), _) => MatchField::Port,
        (Some("tcp" | "sctp" | "dccp" | "icmp" | "icmpv6"), _, _) => MatchField::ForeignPort,
        (Some("ip"), Some("protocol"), _) | (Some("ip6"), Some("nexthdr"), _) => {
            MatchField::Protocol
        }
        (_, _, Some("l4proto")) => MatchField::Protocol,
        (_, _, Some("iifname" | "iif" | "oifname" | "oif")) => MatchField::Interface,
        _ if left["ct"]["key"] == "state" => MatchField::Connection,
        _ => MatchField::Other,
    }
}

/// Whether a value is, or a set or range has, `wanted`; `None` for what is not understood.
fn contains(right: &Value, wanted: &Value) -> Option<bool> {
    if let Some(set) = right.get("set").and_then(Value::as_array).or(right.as_array()) {
        let each: Vec<_> = set.iter().map(|value| contains(value, wanted)).collect();
        let any = each.contains(&Some(true));
        return if !any && each.contains(&None) { None } else { Some(any) };
    }
    if let Some([from, to]) = right.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        let (from, to, wanted) = (from.as_u64()?, to.as_u64()?, wanted.as_u64()?);
        return Some((from..=to).contains(&wanted));
    }
    match right {
        Value::String(name) if name.starts_with('@') => None,
        Value::String(_) | Value::Number(_) => Some(right == wanted),
        _ => None,
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
        let packet = Packet { port: 4791, netdev: "eth0".to_owned() };
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
        let packet = Packet { port: 4791, netdev: "eth0".to_owned() };
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

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,80}") {
            let packet = Packet { port: 4791, netdev: String::new() };
            prop_assert!(chains(&text, &packet).is_empty());
        }
    }
}
