//! Text of strangers inside a page: file names, comments of captures, addresses.

/// `text` for the inside of an HTML element or of a quoted attribute.
pub(super) fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// JSON for the inside of a `<script>` element: no `<` can end the element or begin a comment.
pub(super) fn json(text: &str) -> String {
    // In JSON, `<`, `>` and `&` occur in strings only, where an escape means the same.
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn html_has_no_markup_left() {
        assert_eq!(html(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
    }

    proptest! {
        #[test]
        fn escaped_json_means_the_same(text in "[<>&/!a-z\"\\\\\u{2028}-]{0,40}") {
            let escaped = json(&serde_json::to_string(&text).expect("a string"));
            prop_assert!(!escaped.contains(['<', '>', '&']));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).expect("still JSON"), text);
        }
    }
}
