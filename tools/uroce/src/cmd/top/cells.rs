//! Values as the cells of a table.

use super::sample::QpRow;

/// A queue pair as the table shows it.
pub fn cells(qp: &QpRow) -> [String; 12] {
    [
        qp.process.clone(),
        qp.pid.to_string(),
        qp.device.clone(),
        qp.qpn.clone(),
        qp.peer.clone(),
        qp.service.clone(),
        qp.state.clone(),
        scaled(qp.messages),
        format!("{:.2}", qp.bits / 1e9),
        scaled(qp.retransmitted),
        scaled(qp.rnr),
        qp.error.clone(),
    ]
}

/// A number with three digits and `k`, `M` or `G`.
pub fn scaled(value: f64) -> String {
    match value {
        value if value >= 1e9 => digits(value / 1e9, "G"),
        value if value >= 1e6 => digits(value / 1e6, "M"),
        value if value >= 1e3 => digits(value / 1e3, "k"),
        0.0 => "0".to_owned(),
        value => digits(value, ""),
    }
}

fn digits(value: f64, unit: &str) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}{unit}"),
        value if value < 100.0 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}
