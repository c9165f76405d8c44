//! Columns of text.

/// A table: a line of headings, and rows. Columns are as wide as their widest cell.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns of numbers, whose cells end at one place.
    numbers: &'static [usize],
}

impl Table {
    /// A table with these headings; `numbers` are the columns of numbers.
    pub(super) fn new(headings: &[&str], numbers: &'static [usize]) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
        Self { rows: vec![headings], numbers }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines, two blanks between columns, without blanks at their ends.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(|column| self.width(column)).collect();
        self.rows.iter().map(move |row| {
            let cells = row.iter().enumerate().map(|(column, cell)| {
                let width = widths[column];
                match self.numbers.contains(&column) {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must() {
        let mut table = Table::new(&["name", "bytes"], &[1]);
        table.row(vec!["a".into(), "100000".into()]);
        table.row(vec!["longer".into(), "7".into()]);
        table.row(vec!["short".into()]);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines, ["name     bytes", "a       100000", "longer       7", "short"]);
    }
}
