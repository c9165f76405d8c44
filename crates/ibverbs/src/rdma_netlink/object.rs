//! Objects of all processes: `rdma resource`.

use libc::c_int;
use uroce_device::{DeviceReport, Resource, ResourceKind, device_reports};

use super::attribute::{self as attr, Attributes};
use super::device::{Numbered, asked, handle};
use super::object_attributes::{self, HoldingProcess, Number};
use super::request::NldevRequest;
use crate::log;

/// Kinds in the order of the kernel, with the words that it has for them.
const SUMMARY: [(&str, Option<ResourceKind>); 7] = [
    ("pd", Some(ResourceKind::Pd)),
    ("cq", Some(ResourceKind::Cq)),
    ("qp", Some(ResourceKind::Qp)),
    ("cm_id", Some(ResourceKind::CmId)),
    ("mr", Some(ResourceKind::Mr)),
    ("ctx", None),
    ("srq", Some(ResourceKind::Srq)),
];
/// Bytes of objects in one message: one more, the longest, still fits into a datagram.
const FULL: usize = 3072;

/// What the processes say of a device, one after the other, in an order that stays.
pub fn reports(device: &Numbered) -> Vec<DeviceReport> {
    let all = device_reports().unwrap_or_else(|error| {
        log::tell(&format_args!("no process can be asked what it has: {error}"));
        Vec::new()
    });
    let is_it = |report: &DeviceReport| {
        report.resources.first().and_then(|about| about.get("name")) == Some(&device.1.name)
    };
    all.into_iter().flatten().filter(is_it).collect()
}

fn of_kind(report: &DeviceReport, kind: ResourceKind) -> impl Iterator<Item = &Resource> {
    report.resources.iter().filter(move |object| object.kind() == kind)
}

pub fn summaries(request: &NldevRequest<'_>) -> Result<Vec<Attributes>, c_int> {
    Ok(asked(request)?.iter().map(summary).collect())
}

fn summary(device: &Numbered) -> Attributes {
    let reports = reports(device);
    let entries = SUMMARY.iter().fold(Attributes::default(), |entries, (name, kind)| {
        let count: usize = match kind {
            Some(kind) => reports.iter().map(|report| of_kind(report, *kind).count()).sum(),
            None => reports.len(),
        };
        let entry = Attributes::default()
            .text(attr::RES_SUMMARY_ENTRY_NAME, name)
            .long(attr::RES_SUMMARY_ENTRY_CURR, count as u64);
        entries.nested(attr::RES_SUMMARY_ENTRY, entry)
    });
    handle(device).nested(attr::RES_SUMMARY, entries)
}

/// The objects of this kind, `None` being contexts: all of them, or the one that the request names.
pub fn objects(
    request: &NldevRequest<'_>,
    kind: Option<ResourceKind>,
) -> Result<Vec<Attributes>, c_int> {
    let mut messages = Vec::new();
    for device in asked(request)? {
        let reports = reports(&device);
        let entries = all_entries(&reports, kind);
        if request.is_dump() {
            messages.extend(tables(&device, kind, entries));
            continue;
        }
        let (number, _) = object_attributes::table(kind);
        let wanted = request.number(number.attribute).ok_or(libc::EINVAL)?;
        let found = entries.into_iter().find(|(number, _)| *number == wanted);
        let (_, entry) = found.ok_or(libc::ENOENT)?;
        messages.push(handle(&device).and(entry));
    }
    Ok(messages)
}

/// Each object by its number.
fn all_entries(reports: &[DeviceReport], kind: Option<ResourceKind>) -> Vec<(u32, Attributes)> {
    let mut entries = Vec::new();
    for (context, report) in (0_u32..).zip(reports) {
        let owner = HoldingProcess { context, report };
        match kind {
            None => entries.push((context, object_attributes::context(&owner))),
            Some(kind) => {
                let (number, _) = object_attributes::table(Some(kind));
                entries.extend(of_kind(report, kind).map(|object| {
                    (number_of(&number, object), object_attributes::object(&owner, object))
                }));
            }
        }
    }
    entries
}

fn number_of(number: &Number, object: &Resource) -> u32 {
    object.get(number.name).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Messages with tables of as many entries as fit.
pub fn tables(
    device: &Numbered,
    kind: Option<ResourceKind>,
    entries: Vec<(u32, Attributes)>,
) -> Vec<Attributes> {
    let (_, table) = object_attributes::table(kind);
    let mut tables = Vec::new();
    let mut open = Attributes::default();
    for (_, entry) in entries {
        // The attribute of an entry follows that of its table.
        open = open.nested(table + 1, entry);
        if open.0.len() > FULL {
            tables.push(std::mem::take(&mut open));
        }
    }
    if !open.0.is_empty() {
        tables.push(open);
    }
    tables.into_iter().map(|entries| handle(device).nested(table, entries)).collect()
}
