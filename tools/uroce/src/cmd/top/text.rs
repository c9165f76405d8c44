//! Rates without a screen.

use serde_json::{Value, json};

use super::cells::{cells, scaled};
use super::sample::{CounterRow, DeviceRow, QpRow, Rates};
use super::sampler::Sampler;
use super::view::{TITLES, widths};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::report::{json, out};

/// Prints the rates of one interval.
///
/// # Errors
/// Exit 3 if the system does not tell who is there any more.
pub fn print_once(sampler: &Sampler, interrupt: &Interrupt) -> Result<(), Failure> {
    if let Some(rates) = sampler.next(interrupt)? {
        out(&as_text(&rates));
    }
    Ok(())
}

/// Prints an object for each interval, a line each, until the user interrupts; with `once` only one.
///
/// # Errors
/// As there.
pub fn print_json(sampler: &Sampler, once: bool, interrupt: &Interrupt) -> Result<(), Failure> {
    while let Some(rates) = sampler.next(interrupt)? {
        out(&format!("{}\n", as_json(&rates)));
        if once || crate::report::is_reader_gone() {
            break;
        }
    }
    Ok(())
}

fn as_text(rates: &Rates) -> String {
    let mut text = String::new();
    for device in &rates.devices {
        text += &format!(
            "{} of {} {}: out {}pkt/s {}b/s, in {}pkt/s {}b/s\n",
            device.device,
            device.process,
            device.pid,
            scaled(device.packets[0]),
            scaled(device.bits[0]),
            scaled(device.packets[1]),
            scaled(device.bits[1]),
        );
    }
    let rows: Vec<_> = rates.qps.iter().map(cells).collect();
    let widths = widths(&rows);
    text += &line(&TITLES.map(str::to_owned), &widths);
    rows.iter().for_each(|row| text += &line(row, &widths));
    for counter in &rates.counters {
        text += &format!("{} {}/s\n", counter.name, scaled(counter.rate));
    }
    if rates.silent > 0 {
        text += &format!("{} devices do not tell\n", rates.silent);
    }
    text
}

fn line(cells: &[String; 12], widths: &[usize; 12]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$} "));
    let line: String = padded.collect();
    format!("{}\n", line.trim_end())
}

fn as_json(rates: &Rates) -> Value {
    json!({
        "version": json::VERSION,
        "seconds": rates.time.as_secs_f64(),
        "devices": rates.devices.iter().map(device_json).collect::<Vec<_>>(),
        "qps": rates.qps.iter().map(qp_json).collect::<Vec<_>>(),
        "counters": rates.counters.iter().map(counter_json).collect::<serde_json::Map<_, _>>(),
        "silent": rates.silent,
    })
}

fn device_json(device: &DeviceRow) -> Value {
    json!({
        "ifname": device.device,
        "pid": device.pid,
        "comm": device.process,
        "sent_packets_per_second": device.packets[0],
        "rcvd_packets_per_second": device.packets[1],
        "sent_bits_per_second": device.bits[0],
        "rcvd_bits_per_second": device.bits[1],
    })
}

fn qp_json(qp: &QpRow) -> Value {
    json!({
        "ifname": qp.device,
        "pid": qp.pid,
        "comm": qp.process,
        "lqpn": qp.qpn.parse::<u64>().ok(),
        "peer": qp.peer,
        "type": qp.service,
        "state": qp.state,
        "messages_per_second": qp.messages,
        "bits_per_second": qp.bits,
        "retransmissions_per_second": qp.retransmitted,
        "rnr_naks_per_second": qp.rnr,
        "error": qp.error,
    })
}

fn counter_json(counter: &CounterRow) -> (String, Value) {
    (counter.name.clone(), counter.rate.into())
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::{AFTER, BEFORE, rates};
    use super::*;

    #[test]
    fn one_sample_as_text() {
        let text = as_text(&rates(BEFORE, AFTER));
        let wanted = "\
uroce0 of ib_write_bw 42: out 100pkt/s 1.00Mb/s, in 0pkt/s 0b/s
PROCESS     PID  DEVICE  QPN  PEER        TYPE  STATE  MSG/S  GBIT/S  RETR/S  RNR/S  ERROR
ib_write_bw 42   uroce0  17   10.0.0.2 18 RC    RTS    11.0   0.00    2.00    1.00   -
ib_write_bw 42   uroce0  19   -           UD    RTS    0      0.00    0       0      -
sent_bytes 125k/s
sent_pkts 100/s
drop_bad_icrc 3.00/s
1 devices do not tell
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn one_sample_as_json() {
        let json = as_json(&rates(BEFORE, AFTER));
        assert_eq!((&json["version"], &json["seconds"]), (&1.into(), &2.0.into()));
        assert_eq!(json["qps"][0]["retransmissions_per_second"], 2.0);
        assert_eq!(json["devices"][0]["sent_packets_per_second"], 100.0);
        assert_eq!(json["counters"]["drop_bad_icrc"], 3.0);
        assert!(!json.to_string().contains('\n'), "one line");
    }
}
