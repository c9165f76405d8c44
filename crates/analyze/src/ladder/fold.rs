//! Runs of equal packets, and pauses.

use std::time::Duration;

use uroce_wire::Position;

use super::config::LadderConfig;
use super::step::Step;
use super::{Fold, Row};

/// Fewest packets that are worth a fold.
const LEAST: usize = 3;

/// The rows of `steps`.
pub(super) fn rows(steps: Vec<Step>, config: &LadderConfig) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rest = steps.as_slice();
    let mut before = None;
    while let [first, others @ ..] = rest {
        rows.extend(pause(before, first, config).map(Row::Pause));
        rows.push(Row::Arrow(first.arrow.clone()));
        let run = if config.folds { run_length(first, others, config) } else { 0 };
        let folded = if run >= LEAST { run } else { 0 };
        let (run, behind) = others.split_at(folded);
        rows.extend(fold(run).map(Row::Fold));
        before = Some(run.last().unwrap_or(first));
        rest = behind;
    }
    rows
}

/// The time between two packets, if it is worth a row.
fn pause(before: Option<&Step>, step: &Step, config: &LadderConfig) -> Option<Duration> {
    let time = step.arrow.time.saturating_sub(before?.arrow.time);
    (time >= config.pause).then_some(time)
}

/// How many of `others` go on as `first` does.
fn run_length(first: &Step, others: &[Step], config: &LadderConfig) -> usize {
    let before = std::iter::once(first).chain(others);
    let pairs = before.zip(others);
    pairs.take_while(|(before, step)| continues(before, step, config)).count()
}

fn continues(before: &Step, step: &Step, config: &LadderConfig) -> bool {
    let (one, two) = (&before.arrow, &step.arrow);
    let is_middle = two.opcode.info().is_some_and(|info| info.position == Position::Middle);
    is_middle
        && one.opcode == two.opcode
        && one.to_right == two.to_right
        && two.psn == one.psn.add(1)
        && before.shape == step.shape
        && !one.is_lost
        && !two.is_lost
        && one.is_retransmission == two.is_retransmission
        && before.notes == step.notes
        && pause(Some(before), step, config).is_none()
}

fn fold(run: &[Step]) -> Option<Fold> {
    let (first, last) = (run.first()?, run.last()?);
    Some(Fold {
        count: run.len() as u64,
        to_right: first.arrow.to_right,
        label: first.shape.clone(),
        frames: (first.arrow.frame, last.arrow.frame),
        psns: (first.psn.clone(), last.psn.clone()),
        time: last.arrow.time,
        kind: first.arrow.kind,
        is_retransmission: first.arrow.is_retransmission,
    })
}
