//! The cases, family by family.

mod frames;
mod sequence;

use crate::Case;
use crate::expect::{check, unexpected};

/// The families, in the order in which they run: what breaks nothing first.
const FAMILIES: &[&[Case]] = &[frames::CASES, sequence::CASES];

/// All cases, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    FAMILIES.iter().flat_map(|family| family.iter())
}
