//! Texts of a page, each kept once.

use std::collections::HashMap;

/// Texts that a page keeps; the first one is empty.
pub(super) const MAX_STRINGS: usize = 65_536;
/// Characters that are kept of a text.
pub(super) const MAX_CHARS: usize = 400;

/// A table of texts. Its indices fit 16 bits.
#[derive(Debug)]
pub(super) struct StringTable {
    texts: Vec<String>,
    index: HashMap<String, u16>,
    left_out: u64,
}

impl StringTable {
    /// A table with the empty text at index 0.
    pub(super) fn new() -> Self {
        Self { texts: vec![String::new()], index: HashMap::new(), left_out: 0 }
    }

    /// Index of `text`, made harmless; 0 for an empty one, and once the table is full.
    pub(super) fn index_of(&mut self, text: &str) -> u16 {
        if text.is_empty() {
            return 0;
        }
        let text = harmless(text);
        if let Some(index) = self.index.get(&text) {
            return *index;
        }
        if self.texts.len() == MAX_STRINGS {
            self.left_out += 1;
            return 0;
        }
        let index = u16::try_from(self.texts.len()).unwrap_or(0);
        self.texts.push(text.clone());
        self.index.insert(text, index);
        index
    }

    /// All texts in the order of their indices.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// How often a text was left out because the table was full.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// `text` cut to [`MAX_CHARS`], with U+FFFD for what would not show as itself: control characters,
/// and those that change the direction of writing.
pub(super) fn harmless(text: &str) -> String {
    let shown = |c: char| {
        let hidden = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}');
        if hidden { char::REPLACEMENT_CHARACTER } else { c }
    };
    let mut cut: String = text.chars().take(MAX_CHARS).map(shown).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_index() {
        let mut table = StringTable::new();
        let [first, second, again] = ["a", "b", "a"].map(|text| table.index_of(text));
        assert_eq!((first, second, again, table.index_of("")), (1, 2, 1, 0));
        assert_eq!(table.texts(), ["", "a", "b"]);
    }

    #[test]
    fn a_full_table_takes_no_more_and_counts() {
        let mut table = StringTable::new();
        for number in 1..MAX_STRINGS {
            table.index_of(&number.to_string());
        }
        assert_eq!((table.index_of("one more"), table.left_out()), (0, 1));
        assert_eq!(table.index_of("65535"), u16::MAX);
    }

    #[test]
    fn a_text_cannot_hide_or_reverse_what_follows() {
        assert_eq!(harmless("a\u{202e}b\nc\0"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(harmless(&"é".repeat(MAX_CHARS + 1)).chars().count(), MAX_CHARS + 1);
    }
}
