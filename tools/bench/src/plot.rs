//! Line charts as SVG.

use std::fmt::Write as _;

use crate::summary::shown;

/// A named line through points.
#[derive(Debug, Clone)]
pub struct Line {
    /// Shown in the legend.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
}

/// A chart with a logarithmic x axis and a y axis from 0.
#[derive(Debug)]
pub struct Chart {
    /// Above the chart.
    pub title: String,
    /// The unit at the y axis.
    pub unit: &'static str,
    /// Marks of the x axis: where, and what is written there.
    pub marks: Vec<(f64, String)>,
    /// At least one.
    pub lines: Vec<Line>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 40.0;
const COLORS: [&str; 10] = [
    "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf",
];

/// Where values lie on the picture.
struct Scale {
    x: (f64, f64),
    top: f64,
}

impl Scale {
    fn of(chart: &Chart) -> Self {
        let points = || chart.lines.iter().flat_map(|line| &line.points);
        let xs = || chart.marks.iter().map(|(x, _)| *x).chain(points().map(|(x, _)| *x));
        let low = xs().fold(f64::MAX, f64::min).ln();
        let high = xs().fold(f64::MIN_POSITIVE, f64::max).ln();
        let top = points().map(|(_, y)| *y).fold(0.0, f64::max);
        Self { x: (low, high.max(low + 1e-9)), top: round_up(top) }
    }

    fn x(&self, x: f64) -> f64 {
        LEFT + (x.ln() - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.top * (HEIGHT - TOP - BOTTOM)
    }
}

/// The next larger number of the kind 1, 2, 5, 10, ...
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * unit >= value * 0.999_999);
    step.unwrap_or(10.0) * unit
}

impl Chart {
    /// The picture.
    pub fn svg(&self) -> String {
        let scale = Scale::of(self);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        label(&mut text, (LEFT, TOP - 18.0), "start", &format!("{} ({})", self.title, self.unit));
        self.axes(&mut text, &scale);
        for (nth, line) in self.lines.iter().enumerate() {
            draw(&mut text, &scale, nth, line);
        }
        text + "</svg>\n"
    }

    fn axes(&self, text: &mut String, scale: &Scale) {
        for step in 0..=4 {
            let value = scale.top * f64::from(step) / 4.0;
            let y = scale.y(value);
            rule(text, (LEFT, y), (WIDTH - RIGHT, y));
            label(text, (LEFT - 6.0, y + 4.0), "end", &shown(value));
        }
        for (x, name) in &self.marks {
            let x = scale.x(*x);
            rule(text, (x, TOP), (x, HEIGHT - BOTTOM));
            label(text, (x, HEIGHT - BOTTOM + 16.0), "middle", name);
        }
    }
}

fn draw(text: &mut String, scale: &Scale, nth: usize, line: &Line) {
    let color = COLORS[nth % COLORS.len()];
    // The second ten of lines are dashed.
    let dash = if nth < COLORS.len() { "" } else { " stroke-dasharray=\"5 3\"" };
    let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", scale.x(*x), scale.y(*y));
    let points: Vec<_> = line.points.iter().map(place).collect();
    let style = format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dash}");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "<polyline {style} points=\"{}\"/>", points.join(" "));
    let y = TOP + 16.0 * nth as f64;
    let x = WIDTH - RIGHT + 12.0;
    let _ = writeln!(text, "<polyline {style} points=\"{x},{y} {},{y}\"/>", x + 20.0);
    label(text, (x + 26.0, y + 4.0), "start", &line.name);
}

fn rule(text: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        text,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
    );
}

fn label(text: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ =
        writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_line_lie_at_the_ends_of_the_axes() {
        let chart = Chart {
            title: "a < b".into(),
            unit: "Gb/s",
            marks: vec![(1.0, "1".into()), (100.0, "100".into())],
            lines: vec![Line { name: "x".into(), points: vec![(1.0, 0.0), (100.0, 50.0)] }],
        };
        let svg = chart.svg();
        assert!(svg.contains("points=\"60.0,340.0 510.0,40.0\""), "{svg}");
        assert!(svg.contains("a &lt; b (Gb/s)"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([37.0, 0.7, 100.0, 0.0].map(round_up), [40.0, 0.8, 100.0, 1.0]);
    }
}
