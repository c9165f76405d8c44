//! `uroce conform PEER`.

use super::drawing::{self, Ends};
use super::link::Link;
use super::programs::Programs;
use super::wire::UdpWire;
use super::{ConformArgs, list, say, token};
use crate::cli::Global;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::nic;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uroce_conform::{
    AgentLink, Card, CaseReport, Class, Format, Patience, Report, Selection, Verdict, render,
    render_case, render_performance, run as run_cases, without,
};

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
    let ends = Ends { tester: address, peer: card.address, port: global.roce_port };
    let mut wire = UdpWire::open(address, global.roce_port, global.pcap.as_deref())?;
    if let (false, Some(without)) = (global.json, without(&mut wire, &card)) {
        say(&format!("note: {without}"));
    }
    let mut shown = |done: &CaseReport| {
        if !global.json {
            print_case(args, done, ends);
        }
        !interrupt.is_set()
    };
    let report = run_cases(&selection, &mut wire, link.as_mut(), &card, &mut shown);
    finish(args, global, &report)
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
    let (link, card) = Link::open(peer, token)?;
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
        say(render(report, Format::Json).trim_end());
    } else {
        let measured = render_performance(report);
        measured.lines().for_each(say);
        let text = render(report, Format::Text);
        say(text.lines().last().unwrap_or_default());
    }
    let files = [
        (&args.text, Format::Text),
        (&args.markdown, Format::Markdown),
        (&args.junit, Format::Junit),
    ];
    for (path, format) in files {
        path.as_deref().map_or(Ok(()), |path| write(path, &render(report, format)))?;
    }
    if let Some(lost) = &report.lost {
        return Err(Failure::peer(format!("the run ended early: {lost}")));
    }
    judged(report)
}

/// A rule that must be kept and was not judged is no success either.
fn judged(report: &Report) -> Result<(), Failure> {
    let musts = || report.cases.iter().filter(|done| done.case.class == Class::Must);
    let broken = musts().filter(|done| matches!(done.verdict, Verdict::Fail(_))).count();
    let open = musts().filter(|done| matches!(done.verdict, Verdict::Inconclusive(_))).count();
    match (broken, open) {
        (0, 0) => Ok(()),
        (0, open) => Err(Failure::test(format!("{open} rules that must be kept were not judged"))
            .help("--silence takes more for a slow peer; the report tells why")),
        (broken, _) => Err(Failure::test(format!("{broken} rules that must be kept are broken"))),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::environment(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uroce_conform::{VERSION, cases};

    fn report(verdict: Verdict) -> Report {
        let card = Card {
            version: VERSION,
            device: String::new(),
            firmware: String::new(),
            vendor: (0, 0),
            system: String::new(),
            address: [192, 0, 2, 1].into(),
            mtu: 5,
            max_dest_rd_atomic: 1,
            max_rd_atomic: 1,
            atomics: true,
            shared_queues: true,
            no_cm: None,
            ack_delay: 0,
            extensions: uroce_conform::Extensions::default(),
        };
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
}
