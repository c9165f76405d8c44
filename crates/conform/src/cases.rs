//! The cases, family by family.

mod accept;
mod congestion;
mod connect;
mod datagram;
mod disconnect;
mod extended;
mod frames;
mod headers;
mod keys;
mod messages;
mod naks;
mod order;
mod performance;
mod reads;
mod receives;
mod refuse;
mod requester;
mod robustness;
mod sequence;
mod timing;
mod windows;
mod xrc;

use crate::stock::needs_agent;
use crate::verdict::{check, fail, unexpected};
use crate::{Bench, Case, Outcome, Stop};

/// The families, in the order in which they run: what breaks nothing first.
const FAMILIES: &[&[Case]] = &[
    frames::CASES,
    headers::CASES,
    sequence::CASES,
    receives::CASES,
    order::CASES,
    keys::CASES,
    requester::CASES,
    naks::CASES,
    reads::CASES,
    datagram::CASES,
    messages::CASES,
    timing::CASES,
    extended::CASES,
    windows::CASES,
    xrc::CASES,
    congestion::CASES,
    accept::CASES,
    refuse::CASES,
    disconnect::CASES,
    connect::CASES,
    robustness::CASES,
    performance::CASES,
];

/// The device has what a case is about.
fn needs(has: bool, else_why: &str) -> Outcome {
    if has { Ok(()) } else { Err(Stop::NotApplicable(else_why.to_owned())) }
}

/// The same for what not every device has: its card says so, but stock programs have none.
fn needs_extension(b: &Bench<'_>, has: bool, what: &str) -> Outcome {
    if !has && !b.knows_device() {
        return needs_agent(&format!("no program tells whether the device has {what}"));
    }
    needs(has, &format!("the device has no {what}"))
}

/// A connection of its own takes requests: that another queue pair answered nothing was its own will.
fn others_live(b: &Bench<'_>) -> Outcome {
    b.rc().open()?.alive(0).map(drop)
}

/// All cases, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    FAMILIES.iter().flat_map(|family| family.iter())
}
