//! What is to say about a capture itself.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static CAPTURE_INCOMPLETE: Rule = Rule {
    id: "-",
    name: "capture-incomplete",
    severity: Severity::Note,
    title: "The capture lacks packets of this flow",
    meaning: "Packets were acknowledged that the capture does not have, or has only as the cut rest of \
              a batch of segmentation offload; rules that need all of them are not judged.",
    advice: "A larger capture buffer or a faster disk; no snap length if offload is on.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static FINDINGS_LIMIT: Rule = Rule {
    id: "-",
    name: "findings-limit",
    severity: Severity::Note,
    title: "More findings than are kept",
    meaning: "The table of findings was full.",
    advice: "Look at a part of the capture: filter by host or queue pair.",
    assumption: Assumption::Nothing,
    threshold: 1,
};
