//! Minimum, median and maximum of figures.

/// Of at least one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The smallest.
    pub min: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// How many there were.
    pub count: usize,
}

impl Summary {
    /// `None` without any figure.
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let count = figures.len();
        let median = f64::midpoint(figures[(count - 1) / 2], figures[count / 2]);
        Some(Self { min, median, max, count })
    }
}

/// A figure with three digits that count.
pub fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A size with its binary unit: `2 B`, `64 KiB`, `8 MiB`.
pub fn bytes(size: u64) -> String {
    match size.trailing_zeros() {
        20.. if size > 0 => format!("{} MiB", size >> 20),
        10..20 => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_divides_them() {
        assert_eq!(
            [2, 512, 4096, 1 << 20, 1500, 0].map(bytes),
            ["2 B", "512 B", "4 KiB", "1 MiB", "1500 B", "0 B"]
        );
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let summary = Summary::of(vec![4.0, 1.0, 3.0, 2.0]).expect("figures");
        assert_eq!((summary.min, summary.median, summary.max, summary.count), (1.0, 2.5, 4.0, 4));
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([12345.6, 12.34, 1.234, 0.1234].map(shown), ["12346", "12.3", "1.23", "0.123"]);
    }
}
