//! Counters of a port, sums over all processes that have the device open: `rdma statistic`.

use libc::c_int;
use uroce_device::{ResourceKind, hw_counter_names};

use super::attribute::{self as attr, Attributes};
use super::device::{Numbered, PORT, asked, asked_port, handle};
use super::object::reports;
use super::request::NldevRequest;

/// Counters are not bound to objects (`RDMA_COUNTER_MODE_NONE`).
const NO_MODE: u32 = 0;

pub fn counters(request: &NldevRequest<'_>) -> Result<Vec<Attributes>, c_int> {
    match request.number(attr::STAT_RES) {
        // There are no counters of single queue pairs or regions by netlink.
        Some(_) if request.is_dump() => asked(request).map(|_| Vec::new()),
        Some(_) => {
            let mode = |device| port(device).word(attr::STAT_MODE, NO_MODE);
            Ok(asked_port(request)?.iter().map(mode).collect())
        }
        None => Ok(asked_port(request)?.iter().map(all).collect()),
    }
}

fn port(device: &Numbered) -> Attributes {
    handle(device).word(attr::PORT_INDEX, PORT)
}

fn all(device: &Numbered) -> Attributes {
    let reports = reports(device);
    let lists = reports.iter().flat_map(|report| &report.resources);
    let lists: Vec<_> = lists.filter(|object| object.kind() == ResourceKind::Counters).collect();
    let sum = |name: &str| -> u64 {
        let values = lists.iter().filter_map(|list| list.get(name)?.parse::<u64>().ok());
        values.fold(0, u64::saturating_add)
    };
    let entries = hw_counter_names().iter().fold(Attributes::default(), |entries, name| {
        let entry = Attributes::default()
            .text(attr::STAT_HWCOUNTER_ENTRY_NAME, name)
            .long(attr::STAT_HWCOUNTER_ENTRY_VALUE, sum(name));
        entries.nested(attr::STAT_HWCOUNTER_ENTRY, entry)
    });
    port(device).nested(attr::STAT_HWCOUNTERS, entries)
}
