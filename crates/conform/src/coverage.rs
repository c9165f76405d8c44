//! Which candidates have a case, and why the others have none.

use std::fmt::Write as _;

use crate::{CANDIDATES, Case, cases};

/// Candidates without a case for a reason that lasts, by number. All others without one are not built yet.
const REASONS: &[(&[u16], &str)] = &[
    (&[240], "a flood of calls: it belongs to the robustness cases, and is not built yet"),
    (
        &[117],
        "the difference that tells keys apart is some tens of nanoseconds, and a packet of a UDP socket comes and goes \
         with a thousand times that: a pass would say nothing. It takes a NIC that stamps packets by hardware",
    ),
];

/// docs/conform/coverage.md.
pub fn coverage_page() -> String {
    let covered =
        CANDIDATES.iter().flat_map(|(_, all)| *all).filter(|one| !by(one.number).is_empty());
    let (covered, all) =
        (covered.count(), CANDIDATES.iter().map(|(_, all)| all.len()).sum::<usize>());
    let mut page = format!(
        "# Coverage\n\nMade from the sources; do not edit. {} cases ask {covered} of {all} candidates. A candidate may have \
         several cases, and a case may answer several candidates; cases without a candidate are listed at the end.\n",
        cases::all().count()
    );
    for (group, candidates) in CANDIDATES {
        let _ = write!(page, "\n## {group}\n\n| | candidate | cases |\n|---|---|---|\n");
        for candidate in *candidates {
            let (number, name) = (candidate.number, candidate.name);
            let _ = writeln!(page, "| {number} | {name} | {} |", cell(number));
        }
    }
    page + &beside()
}

fn by(number: u16) -> Vec<&'static Case> {
    cases::all().filter(|case| case.candidates.contains(&number)).collect()
}

fn cell(number: u16) -> String {
    let ids: Vec<String> = by(number).iter().map(|case| format!("`{}`", case.id)).collect();
    if !ids.is_empty() {
        return ids.join("<br>");
    }
    let reason = REASONS.iter().find(|(numbers, _)| numbers.contains(&number));
    format!("- {}", reason.map_or("not built yet", |(_, why)| why))
}

fn beside() -> String {
    let mut text = "\n## Cases without a candidate\n\n| case | rule |\n|---|---|\n".to_owned();
    for case in cases::all().filter(|case| case.candidates.is_empty()) {
        let _ = writeln!(text, "| `{}` | {} |", case.id, case.sentence);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn candidates_are_numbered_without_a_gap() {
        let numbers =
            CANDIDATES.iter().flat_map(|(_, all)| *all).map(|one| usize::from(one.number));
        assert!(numbers.eq(1..=242));
    }

    #[test]
    fn every_case_has_a_name_of_its_own_and_asks_candidates_that_exist() {
        let mut names = HashSet::new();
        for case in cases::all() {
            assert!(names.insert(case.id), "{} twice", case.id);
            assert!(case.candidates.iter().all(|number| (1..=242).contains(number)), "{case:?}");
            assert!(case.id.split('.').count() == 3, "{case:?} is no service.role.name");
            assert!(case.sentence.ends_with('.'), "{case:?} has no sentence");
        }
    }

    #[test]
    fn what_has_a_reason_has_no_case() {
        for (numbers, why) in REASONS {
            let built: Vec<_> = numbers.iter().filter(|number| !by(**number).is_empty()).collect();
            assert!(built.is_empty(), "{built:?} have a case and the reason {why:?}");
        }
    }
}
