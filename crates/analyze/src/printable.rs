//! Text of strangers on a terminal.

use std::borrow::Cow;

/// The text without characters that a terminal or an XML reader takes for more than text: control
/// characters and those that turn the direction of writing become U+FFFD. Comments of a capture
/// file come from the writer of the file.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_command) {
        let shown = |letter| if is_command(letter) { char::REPLACEMENT_CHARACTER } else { letter };
        text.chars().map(shown).collect::<String>().into()
    } else {
        text.into()
    }
}

/// A terminal or an XML reader takes `letter` for more than text.
pub(crate) fn is_command(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(letter, '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_not_executed() {
        assert_eq!(printable("a\x1b[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(printable("a\u{9b}2J\u{202e}b"), "a\u{fffd}2J\u{fffd}b");
        assert_eq!(printable("one\ntwo"), "one\u{fffd}two");
        assert!(matches!(printable("ünïcode <b>"), Cow::Borrowed("ünïcode <b>")));
    }
}
