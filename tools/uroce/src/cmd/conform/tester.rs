//! `uroce conform PEER`.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uroce_conform::{
    AgentLink, Card, CaseReport, Class, Format, Patience, Report, Selection, Verdict, reach,
    render, render_case, render_performance, run as run_cases, without,
};

use super::drawing::{self, Ends};
use super::link::AgentSession;
use super::programs::Programs;
use super::wire::UdpWire;
use super::{ConformArgs, list, say, token};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic;
use crate::report::json;

/// Cases that are named in the last line, at most.
const NAMED: usize = 5;
/// What robustness cases may do, said before they do it.
const WARNING: &str = "the robustness cases send up to 5000 packets at once, forged and malformed ones among them: a \
                       defective driver or firmware may hang or crash its machine, or fill its log";

/// Tests a peer.
///
/// # Errors
/// Exit 1: a rule that must be kept is broken, or the run ended early.
pub fn run(args: &ConformArgs, global: &Global) -> Result<(), Failure> {
    let selection = selection(args)?;
    let cases = list::selected(&selection)?;
    if cases.iter().any(|case| case.is_robustness()) {
        eprintln!("note: {WARNING}");
    }
    let interrupt = Interrupt::install();
    let (mut link, card) = link(args, global, &interrupt)?;
    let address = match global.address {
        Some(address) => address,
        None => nic::address_towards(card.address)?,
    };
    let ends = Ends { tester: address, peer: card.address, port: global.roce_port() };
    let mut wire = UdpWire::open(address, global.roce_port(), global.pcap.as_deref())?;
    reports(args).try_for_each(|(path, _)| writable(path))?;
    let lossy = if args.no_agent.is_empty() {
        reached(&mut wire, link.as_mut(), &card, selection.patience)?
    } else {
        None
    };
    let notes = without(&mut wire, &card).into_iter().chain(lossy.clone());
    notes.filter(|_| !global.json).for_each(|note| say(&format!("note: {note}")));
    let mut shown = |done: &CaseReport| {
        if !global.json {
            print_case(args, done, ends);
        }
        !interrupt.is_set()
    };
    let mut report = run_cases(&selection, &mut wire, link.as_mut(), &card, &mut shown);
    if let Some(lossy) = lossy {
        let without = report.without.map(|without| format!("{without}; {lossy}"));
        report.without = Some(without.unwrap_or(lossy));
    }
    finish(args, global, &report)
}

/// Packets pass between the two. A sentence if some are lost.
fn reached(
    wire: &mut UdpWire,
    agent: &mut dyn AgentLink,
    card: &Card,
    patience: Patience,
) -> Result<Option<String>, Failure> {
    reach(wire, agent, card, patience).map_err(|why| {
        Failure::peer(why).help(format!(
            "a firewall on either machine or between them may drop UDP port 4791: `uroce doctor --peer {}` looks on this one",
            card.address
        ))
    })
}

/// The agent of the machine under test, or the stock programs that stand for it.
fn link(
    args: &ConformArgs,
    global: &Global,
    interrupt: &Interrupt,
) -> Result<(Box<dyn AgentLink>, Card), Failure> {
    let peer = args.peer.as_deref().unwrap_or_default();
    if !args.no_agent.is_empty() {
        let (programs, card) = Programs::open(peer, &args.no_agent, global.address, interrupt)?;
        return Ok((Box::new(programs), card));
    }
    let token = token(args.token.as_ref()).ok_or_else(|| {
        Failure::usage("the agent wants a token")
            .help("--token takes what it printed when it started; --no-agent does without an agent")
    })?;
    let (link, card) = AgentSession::open(peer, token, interrupt)?;
    Ok((Box::new(link), card))
}

fn selection(args: &ConformArgs) -> Result<Selection, Failure> {
    let only = match &args.explain {
        Some(name) => vec![list::find(name)?.id.to_owned()],
        None => args.only.clone(),
    };
    let silence = Duration::from_millis(args.silence);
    let patience = Patience { silence, ..Patience::default() };
    let ConformArgs { repeat, robustness, performance, .. } = *args;
    Ok(Selection { only, repeat, patience, run: run_number(), robustness, performance })
}

/// A number that no other run of these days has.
fn run_number() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u32
}

/// One case while the run goes on.
fn print_case(args: &ConformArgs, done: &CaseReport, ends: Ends) {
    if args.explain.is_none() {
        return say(render_case(done, done.failed()).trim_end());
    }
    for line in list::about(done.case) {
        say(&line);
    }
    say(&render_case(done, false));
    say(drawing::draw(&done.transcript, ends).trim_end());
}

/// Writes the reports, and says how it ended.
fn finish(args: &ConformArgs, global: &Global, report: &Report) -> Result<(), Failure> {
    if global.json {
        json::print_text(&render(report, Format::Json));
    } else {
        let measured = render_performance(report);
        measured.lines().for_each(say);
        let text = render(report, Format::Text);
        say(text.lines().last().unwrap_or_default());
    }
    reports(args).try_for_each(|(path, format)| write(path, &render(report, format)))?;
    match &report.lost {
        Some(lost) if lost == "interrupted" => {
            return Err(Failure::peer("the run ended early: interrupted"));
        }
        Some(lost) => {
            return Err(Failure::peer(format!("the run ended early: {lost}")).help(
                "look at the machine under test: whether it still runs, and what the agent said last. \
                 `--only CASE` tries the case again alone",
            ));
        }
        None => {}
    }
    judged(report)
}

/// A rule that must be kept and was not judged is no success either.
fn judged(report: &Report) -> Result<(), Failure> {
    let musts = |wanted: fn(&Verdict) -> bool| {
        let all = report.cases.iter().filter(|done| done.case.class == Class::Must);
        all.filter(|done| wanted(&done.verdict)).map(|done| done.case.id).collect::<Vec<_>>()
    };
    let broken = musts(|verdict| matches!(verdict, Verdict::Fail(_)));
    let open = musts(|verdict| matches!(verdict, Verdict::Inconclusive(_)));
    match (broken.len(), open.len()) {
        (0, 0) => Ok(()),
        (0, count) => Err(Failure::test(format!(
            "{} not judged: {}",
            if count == 1 {
                "a rule that must be kept was"
            } else {
                "rules that must be kept were"
            },
            listed(&open)
        ))
        .help("--silence takes more for a slow peer; the report tells why")),
        (count, _) => Err(Failure::test(format!(
            "{} broken: {}",
            if count == 1 { "a rule that must be kept is" } else { "rules that must be kept are" },
            listed(&broken)
        ))),
    }
}

/// The first of these cases, and how many more there are.
fn listed(cases: &[&str]) -> String {
    let shown = cases.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match cases.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The reports that are asked for.
fn reports(args: &ConformArgs) -> impl Iterator<Item = (&Path, Format)> {
    let files = [
        (&args.text, Format::Text),
        (&args.markdown, Format::Markdown),
        (&args.junit, Format::Junit),
    ];
    files.into_iter().filter_map(|(path, format)| Some((path.as_deref()?, format)))
}

/// The file can be written when the run is over. What it holds now stays.
fn writable(path: &Path) -> Result<(), Failure> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| cannot_write(path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use uroce_conform::cases;

    use super::*;

    fn report(verdict: Verdict) -> Report {
        let card = Card::new("nic", [192, 0, 2, 1].into());
        let case = cases::all().find(|case| case.class == Class::Must).expect("one must");
        let (recorded, transcript, time) = (vec![], vec![], Duration::ZERO);
        let done = CaseReport { case, verdict, recorded, transcript, figures: None, time };
        Report { card, cases: vec![done], lost: None, without: None }
    }

    #[test]
    fn only_a_rule_that_was_judged_is_kept() {
        let good = |verdict| judged(&report(verdict)).is_ok();
        assert!(good(Verdict::Pass) && good(Verdict::Tolerated(String::new())));
        assert!(good(Verdict::NotApplicable(String::new())));
        assert!(!good(Verdict::Fail(String::new())));
        assert!(!good(Verdict::Inconclusive(String::new())));
    }

    #[test]
    fn the_last_line_names_what_is_broken() {
        let mut report = report(Verdict::Fail(String::new()));
        let said = |report: &Report| judged(report).expect_err("it is broken").to_string();
        let id = report.cases[0].case.id;
        assert_eq!(said(&report), format!("a rule that must be kept is broken: {id}"));
        report.cases = vec![report.cases[0].clone(); NAMED + 2];
        assert!(said(&report).ends_with(&format!("{id} and 2 more")), "{}", said(&report));
    }
}
