//! A row before runs of equal packets are folded.

use super::Arrow;

/// An arrow and the parts of its label.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) arrow: Arrow,
    /// PSN as it is shown.
    pub(super) psn: String,
    /// Operation and details, without PSN.
    pub(super) shape: String,
    /// What makes packets differ so that they are not folded.
    pub(super) notes: Vec<String>,
}
