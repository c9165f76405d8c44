//! The cases, family by family.

mod datagram;
mod frames;
mod keys;
mod order;
mod reads;
mod receives;
mod requester;
mod sequence;

use crate::Case;
use crate::expect::{check, fail, unexpected};

/// The families, in the order in which they run: what breaks nothing first.
const FAMILIES: &[&[Case]] = &[
    frames::CASES,
    sequence::CASES,
    receives::CASES,
    order::CASES,
    keys::CASES,
    requester::CASES,
    reads::CASES,
    datagram::CASES,
];

/// All cases, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    FAMILIES.iter().flat_map(|family| family.iter())
}
