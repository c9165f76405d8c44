//! What a chain of rules does with a RoCE packet.

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From a peer to this host.
    In,
    /// From this host to a peer.
    Out,
}

/// The packet in question: to RoCE's port, by our interface, the first of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// UDP destination port.
    pub port: u16,
    /// The interface that it comes in or goes out by.
    pub netdev: String,
    /// IPv4, or else IPv6.
    pub is_ipv4: bool,
}

/// Whether a rule is about the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Applies {
    /// Certainly not.
    No,
    /// It depends on what is not looked at here.
    Perhaps,
    /// Certainly.
    Yes,
}

/// What a rule does with packets that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Lets them in.
    Accept,
    /// Drops or rejects them.
    Drop,
    /// Hands them to rules that are not looked at here.
    Elsewhere,
    /// Counts or logs them, and goes on.
    GoOn,
}

/// One rule, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is about the packet.
    pub applies: Applies,
    /// What it does then.
    pub verdict: Verdict,
    /// How a person would find it.
    pub text: String,
}

/// A chain of rules that packets of one way pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The way of those packets.
    pub way: Way,
    /// Table and name, as the program wants them.
    pub name: String,
    /// The command that adds a rule to its front, up to the rule; one that shows the chain where it may be none of ours.
    pub insert: &'static str,
    /// What accepts the packet, with `{port}` in place of the port; empty where the chain is shown only.
    pub accept: &'static str,
    /// What becomes of packets that no rule is about.
    pub drops: bool,
    /// Its rules in order.
    pub rules: Vec<Rule>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It passes.
    Open,
    /// It is dropped, by this.
    Blocked(String),
    /// It depends on this.
    Unclear(String),
}

impl Chain {
    /// Follows the packet through the rules. A rule that may be about it makes what differs from it
    /// unclear.
    pub fn judge(&self) -> Judgement {
        let (mut may_accept, mut may_drop) = (None, None);
        for rule in &self.rules {
            let text = || rule.text.clone();
            match (rule.applies, rule.verdict) {
                (Applies::No, _) | (_, Verdict::GoOn) => {}
                (Applies::Yes, Verdict::Accept) => return Self::end(false, text(), may_drop),
                (Applies::Yes, Verdict::Drop) => return Self::end(true, text(), may_accept),
                (Applies::Perhaps, Verdict::Accept) => may_accept = may_accept.or(Some(text())),
                (Applies::Perhaps, Verdict::Drop) => may_drop = may_drop.or(Some(text())),
                (_, Verdict::Elsewhere) => {
                    may_accept = may_accept.or(Some(text()));
                    may_drop = may_drop.or(Some(text()));
                }
            }
        }
        let earlier = if self.drops { may_accept } else { may_drop };
        Self::end(self.drops, "the policy".to_owned(), earlier)
    }

    fn end(drops: bool, by: String, unless: Option<String>) -> Judgement {
        match (unless, drops) {
            (Some(rule), _) => Judgement::Unclear(rule),
            (None, true) => Judgement::Blocked(by),
            (None, false) => Judgement::Open,
        }
    }

    /// The command that lets packets to `port` pass, or shows the chain.
    pub fn opening(&self, port: u16) -> String {
        let accept = self.accept.replace("{port}", &port.to_string());
        format!("sudo {} {} {accept}", self.insert, self.name).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(applies: Applies, verdict: Verdict) -> Rule {
        Rule { applies, verdict, text: format!("{applies:?} {verdict:?}") }
    }

    fn judge(drops: bool, rules: &[(Applies, Verdict)]) -> Judgement {
        let rules = rules.iter().map(|&(applies, verdict)| rule(applies, verdict)).collect();
        Chain { way: Way::In, name: "input".to_owned(), insert: "nft", accept: "", drops, rules }
            .judge()
    }

    #[test]
    fn the_first_certain_rule_decides() {
        use Applies::{No, Perhaps, Yes};
        use Verdict::{Accept, Drop, Elsewhere, GoOn};
        assert_eq!(judge(false, &[]), Judgement::Open);
        assert_eq!(judge(true, &[]), Judgement::Blocked("the policy".to_owned()));
        assert_eq!(judge(true, &[(No, Drop), (Yes, GoOn), (Yes, Accept)]), Judgement::Open);
        assert_eq!(judge(false, &[(Yes, Drop)]), Judgement::Blocked("Yes Drop".to_owned()));
        let unclear = Judgement::Unclear("Perhaps Drop".to_owned());
        assert_eq!(judge(true, &[(Perhaps, Drop), (Yes, Accept)]), unclear);
        assert_eq!(judge(true, &[(Perhaps, Drop)]), Judgement::Blocked("the policy".to_owned()));
        assert!(matches!(judge(false, &[(Yes, Elsewhere)]), Judgement::Unclear(_)));
    }

    proptest! {
        /// A certain judgement holds, however the rules that may apply turn out.
        #[test]
        fn a_certain_judgement_holds_for_every_packet(
            kinds in prop::collection::vec((0usize..3, 0usize..3), 0..6),
            turns in any::<u8>(),
            drops in any::<bool>(),
        ) {
            let applies = [Applies::No, Applies::Perhaps, Applies::Yes];
            let verdicts = [Verdict::Accept, Verdict::Drop, Verdict::GoOn];
            let rules: Vec<_> = kinds.iter().map(|&(a, v)| (applies[a], verdicts[v])).collect();
            let real = rules.iter().enumerate().find_map(|(at, &(applies, verdict))| {
                let hit = applies == Applies::Yes || (applies == Applies::Perhaps && turns >> at & 1 == 1);
                (hit && verdict != Verdict::GoOn).then_some(verdict == Verdict::Drop)
            });
            let dropped = real.unwrap_or(drops);
            match judge(drops, &rules) {
                Judgement::Open => prop_assert!(!dropped),
                Judgement::Blocked(_) => prop_assert!(dropped),
                Judgement::Unclear(_) => prop_assert!(rules.iter().any(|r| r.0 == Applies::Perhaps)),
            }
        }
    }
}
