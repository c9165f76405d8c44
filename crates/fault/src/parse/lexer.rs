//! Words of a text of rules.

/// What the text consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    /// `->`
    Arrow,
    Comma,
    /// `;`, the end of a line or of the text
    End,
}

/// A token and the byte where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lexeme<'a> {
    pub token: Token<'a>,
    pub at: usize,
}

/// Takes a text apart.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// True if nothing is left.
    pub(super) fn is_done(&mut self) -> bool {
        self.skip_blank();
        self.at == self.text.len()
    }

    pub(super) fn peek(&self) -> Lexeme<'a> {
        self.clone().next()
    }

    /// The next token; `End` again and again where the text is over.
    pub(super) fn next(&mut self) -> Lexeme<'a> {
        self.skip_blank();
        let at = self.at;
        let rest = &self.text[at..];
        let (token, length) = match rest.as_bytes().first() {
            None => (Token::End, 0),
            Some(b';' | b'\n') => (Token::End, 1),
            Some(b',') => (Token::Comma, 1),
            Some(_) if rest.starts_with("->") => (Token::Arrow, 2),
            Some(_) => {
                let length = word_len(rest);
                (Token::Word(&rest[..length]), length)
            }
        };
        self.at += length;
        Lexeme { token, at }
    }

    /// Skips white space in a line, and a comment.
    fn skip_blank(&mut self) {
        let rest = &self.text[self.at..];
        let is_blank = |letter: char| letter.is_whitespace() && letter != '\n';
        let rest = rest.trim_start_matches(is_blank);
        let rest = if rest.starts_with('#') { &rest[line_len(rest)..] } else { rest };
        self.at = self.text.len() - rest.len();
    }
}

fn line_len(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// Bytes of the word at the start of `text`. The numbers of `ge=` have commas between them.
fn word_len(text: &str) -> usize {
    let takes_commas = text.starts_with("ge=");
    let is_end = |letter: char| {
        letter.is_whitespace() || matches!(letter, ';' | '#') || (letter == ',' && !takes_commas)
    };
    let end = text.find(is_end).unwrap_or(text.len());
    let arrow = text.find("->").unwrap_or(text.len());
    end.min(arrow)
}

#[cfg(test)]
mod tests {
    use super::{Lexer, Token};

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        while !lexer.is_done() {
            tokens.push(lexer.next().token);
        }
        tokens
    }

    #[test]
    fn words_arrows_commas_and_ends() {
        use Token::{Arrow, Comma, End, Word};
        assert_eq!(
            tokens("tx->drop,dup ; # rest\nrx"),
            [Word("tx"), Arrow, Word("drop"), Comma, Word("dup"), End, End, Word("rx")]
        );
    }

    #[test]
    fn a_comment_needs_no_blank_before_it_and_ends_with_its_line() {
        use Token::{End, Word};
        let expected = [Word("pass"), End, Word("ge=1,2"), End, Word("rx")];
        assert_eq!(tokens("pass#x; y\nge=1,2#x\nrx"), expected);
    }

    #[test]
    fn bursts_keep_their_commas() {
        assert_eq!(tokens("ge=1,2,3"), [Token::Word("ge=1,2,3")]);
    }
}
