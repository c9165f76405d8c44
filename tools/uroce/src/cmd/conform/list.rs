//! What there is to test.

use serde_json::json;
use uroce_conform::{Case, Selection, cases};

use super::say;
use crate::failure::Failure;
use crate::report::json;

/// Prints the cases that `only` names.
///
/// # Errors
/// Exit 2: it names none.
pub fn print(only: &[String], as_json: bool) -> Result<(), Failure> {
    let only = only.to_vec();
    let cases = selected(&Selection { only, ..everything() })?;
    if as_json {
        print_json(&cases);
        return Ok(());
    }
    for case in &cases {
        let (class, rules) = (case.class.name(), case.rules);
        say(&format!("{:44} {class:22} {rules}", case.id));
        say(&format!("    {}", case.sentence));
    }
    say(&format!("{} cases", cases.len()));
    Ok(())
}

/// The cases that a selection names.
///
/// # Errors
/// Exit 2: it names none, or only such that must be asked for.
pub fn selected(selection: &Selection) -> Result<Vec<&'static Case>, Failure> {
    let cases = selection.cases();
    let all = Selection { only: selection.only.clone(), ..everything() }.cases();
    if cases.is_empty() && all.iter().any(|case| case.is_performance()) {
        return Err(Failure::usage("performance is measured only if asked for")
            .help("--performance measures it"));
    }
    if cases.is_empty() && !all.is_empty() {
        return Err(Failure::usage("these are robustness cases, which run only if asked for")
            .help(
                "--robustness runs them; read before what they may do to the machine under test",
            ));
    }
    if cases.is_empty() {
        return Err(Failure::usage(format!(
            "no case is called like {}",
            selection.only.join(", ")
        ))
        .help("`uroce conform --list` lists them"));
    }
    Ok(cases)
}

/// All cases, those as well that run only if asked for.
fn everything() -> Selection {
    Selection { robustness: true, performance: true, ..Selection::default() }
}

/// Prints what a case is about.
///
/// # Errors
/// Exit 2: there is no such case.
pub fn explain(name: &str, as_json: bool) -> Result<(), Failure> {
    let case = find(name)?;
    if as_json {
        print_json(&[case]);
        return Ok(());
    }
    for line in about(case) {
        say(&line);
    }
    say("With PEER, its packets are drawn as well.");
    Ok(())
}

/// The case of this name.
///
/// # Errors
/// Exit 2: there is none.
pub fn find(name: &str) -> Result<&'static Case, Failure> {
    cases::all().find(|case| case.id == name).ok_or_else(|| {
        Failure::usage(format!("there is no case {name}")).help("`uroce conform --list` lists them")
    })
}

/// What a case is about, line by line.
pub fn about(case: &Case) -> [String; 3] {
    let (role, class) = (case.role().name(), case.class.name());
    let candidates: Vec<String> = case.candidates.iter().map(ToString::to_string).collect();
    [
        case.id.to_owned(),
        case.sentence.to_owned(),
        format!("{role}, {class}; rules {}; candidates {}", case.rules, candidates.join(", ")),
    ]
}

fn print_json(cases: &[&Case]) {
    let list: Vec<_> = cases.iter().map(|case| object(case)).collect();
    json::print(&json!({ "version": json::VERSION, "cases": list }));
}

fn object(case: &Case) -> serde_json::Value {
    json!({
        "case": case.id,
        "rules": case.rules,
        "role": case.role().name(),
        "class": case.class.name(),
        "candidates": case.candidates,
        "sentence": case.sentence,
        "robustness": case.is_robustness(),
        "performance": case.is_performance(),
    })
}
