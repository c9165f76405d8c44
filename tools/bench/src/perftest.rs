//! Tests of perftest that `uroce perf` makes as well, with the same flags and the same tables.

use crate::record::Unit;

/// A test that both make.
#[derive(Debug, Clone, Copy)]
pub struct Test {
    /// In the names of its series.
    pub title: &'static str,
    /// The program of perftest.
    pub stock: &'static str,
    /// The same after `uroce perf`.
    pub ours: &'static str,
    /// Of both.
    pub flags: &'static str,
    /// Of the figure in their tables.
    pub column: usize,
    /// Of the figure.
    pub unit: Unit,
}

/// Average of Gb/s, with `--report_gbits`.
pub const BANDWIDTH: usize = 3;
/// Million messages a second.
pub const RATE: usize = 4;
/// The median of a latency.
pub const TYPICAL: usize = 4;

/// The number in `column` of the last line that starts with two whole numbers: size and count.
pub fn figure(table: &str, column: usize) -> Option<f64> {
    let row = table.lines().rev().find(|line| {
        let mut words = line.split_whitespace();
        let mut whole = || words.next().is_some_and(|word| word.parse::<u64>().is_ok());
        whole() && whole()
    })?;
    row.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_the_tables_of_both_programs() {
        let table = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
                     65536      5000             0.00               12.5                0.0238\n---\n";
        assert_eq!(figure(table, 3), Some(12.5));
        assert_eq!(figure(" local address: LID 0000\n", 3), None);
    }
}
