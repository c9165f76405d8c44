//! What is wrong with the text of a rule.

/// What is wrong with the text of a rule, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: found {found}; expected {expected}")]
pub struct RuleError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What stands there.
    pub found: String,
    /// What should stand there.
    pub expected: String,
}

/// Characters of the text that an error repeats.
const FOUND_MAX: usize = 60;

impl RuleError {
    /// An error at byte `offset` of `text`, where `found` stands.
    pub(super) fn new(text: &str, offset: usize, found: &str, expected: &str) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            found: quoted(found),
            expected: expected.to_owned(),
        }
    }
}

fn quoted(found: &str) -> String {
    let found = found.trim_end();
    if found.is_empty() {
        return "nothing".to_owned();
    }
    let shown = found.chars().take(FOUND_MAX).collect::<String>();
    let more = if shown.len() < found.len() { "..." } else { "" };
    format!("'{}{more}'", shown.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::RuleError;

    #[test]
    fn line_and_column_count_characters() {
        let error = RuleError::new("ä -> drop\nö x", 14, "x", "y");
        assert_eq!((error.line, error.column), (2, 3));
        assert_eq!(error.to_string(), "line 2, column 3: found 'x'; expected y");
    }

    #[test]
    fn nothing_and_too_much_are_shown() {
        assert_eq!(RuleError::new("", 0, "", "y").found, "nothing");
        assert!(RuleError::new("", 0, &"x".repeat(100), "y").found.ends_with("...'"));
    }
}
