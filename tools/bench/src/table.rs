//! The table on the terminal: every series with its baselines, for each placement that occurred.

use comfy_table::{CellAlignment, Table, presets};

use crate::counted::counted;
use crate::placement::Place;
use crate::record::{Record, Series};
use crate::summary::{Summary, shown};

const HEADER: [&str; 7] =
    ["series", "place", "runs", "min/median/max", "unit", "baseline", "ratio"];

/// All series of a record, with the runs that count.
pub fn text(record: &Record) -> String {
    let record = &counted(record);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(HEADER);
    for series in &record.series {
        for place in [Place::Close, Place::Far, Place::Mixed] {
            table.add_rows(rows(record, series, place));
        }
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

/// One row for each baseline, or one without any.
fn rows(record: &Record, series: &Series, place: Place) -> Vec<[String; 7]> {
    let Some(summary) = series.summary(place) else {
        return Vec::new();
    };
    let row = |baseline: String, ratio: String| {
        [
            series.name.clone(),
            place.name().to_owned(),
            summary.count.to_string(),
            triple(&summary),
            series.unit.name().to_owned(),
            baseline,
            ratio,
        ]
    };
    let found = |name: &String| {
        let ratio = series.ratio(record.find(&series.group, name)?, place)?;
        Some(row(name.clone(), triple(&ratio)))
    };
    let rows: Vec<_> = series.baselines.iter().filter_map(found).collect();
    if rows.is_empty() { vec![row(String::new(), String::new())] } else { rows }
}

/// `min/median/max`.
fn triple(summary: &Summary) -> String {
    format!("{}/{}/{}", shown(summary.min), shown(summary.median), shown(summary.max))
}
