//! Classifies each byte of a text as code, comment or string, and finds what is still open at the end.
//!
//! Rhai's lexer fails on incomplete input, which an editor always has.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Code, including white space.
    Code,
    /// A comment, including its delimiters.
    Comment,
    /// A string or character, including its quotes.
    Text,
}

/// What the end of a text is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Code,
    /// A line comment.
    LineComment,
    /// An unclosed `/* … */`.
    BlockComment,
    /// An unclosed `"…`.
    Quotes,
    /// An unclosed string that may span lines.
    LongText,
}

#[derive(Debug)]
pub(super) struct Mask<'a> {
    pub(super) text: &'a str,
    classes: Vec<Class>,
    /// What the end of the text is inside of.
    pub(super) end: Inside,
    /// Positions of the open brackets, outermost first.
    pub(super) open: Vec<usize>,
}

impl<'a> Mask<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut reader = Reader {
            rest: text,
            classes: Vec::with_capacity(text.len()),
            open: Vec::new(),
            interpolations: Vec::new(),
        };
        let end = reader.read();
        Self {
            text,
            classes: reader.classes,
            end,
            open: reader.open,
        }
    }

    pub(super) fn class(&self, at: usize) -> Class {
        self.classes.get(at).copied().unwrap_or(Class::Code)
    }

    /// The characters of code, with their positions.
    pub(super) fn code(&self) -> impl DoubleEndedIterator<Item = (usize, char)> + '_ {
        self.text
            .char_indices()
            .filter(|(at, _)| self.class(*at) == Class::Code)
    }
}

struct Reader<'a> {
    rest: &'a str,
    classes: Vec<Class>,
    open: Vec<usize>,
    /// For each open `${`, the number of brackets that were open before it.
    interpolations: Vec<usize>,
}

impl Reader<'_> {
    fn read(&mut self) -> Inside {
        while let Some(c) = self.rest.chars().next() {
            let end = match c {
                '/' if self.rest.starts_with("//") => self.line_comment(),
                '/' if self.rest.starts_with("/*") => self.block_comment(),
                '"' => self.quotes(),
                '\'' => self.character(),
                '`' => {
                    self.take(1, Class::Text);
                    self.long_text()
                }
                '#' if self.rest.trim_start_matches('#').starts_with('"') => self.raw_text(),
                '(' | '[' | '{' => {
                    self.open.push(self.classes.len());
                    self.take(1, Class::Code);
                    None
                }
                '}' if self.interpolations.last() == Some(&self.open.len().saturating_sub(1)) => {
                    self.interpolations.pop();
                    self.open.pop();
                    self.take(1, Class::Text);
                    self.long_text()
                }
                ')' | ']' | '}' => {
                    self.open.pop();
                    self.take(1, Class::Code);
                    None
                }
                other => {
                    self.take(other.len_utf8(), Class::Code);
                    None
                }
            };
            if let Some(inside) = end {
                return inside;
            }
        }
        Inside::Code
    }

    fn take(&mut self, bytes: usize, class: Class) {
        self.classes.resize(self.classes.len() + bytes, class);
        self.rest = &self.rest[bytes..];
    }

    /// Assigns the rest to `class`, because something is unclosed.
    fn take_all(&mut self, class: Class, inside: Inside) -> Option<Inside> {
        self.take(self.rest.len(), class);
        Some(inside)
    }

    fn line_comment(&mut self) -> Option<Inside> {
        match self.rest.find('\n') {
            Some(length) => {
                self.take(length, Class::Comment);
                None
            }
            None => self.take_all(Class::Comment, Inside::LineComment),
        }
    }

    fn block_comment(&mut self) -> Option<Inside> {
        let mut depth = 0;
        let mut at = 0;
        while let Some(c) = self.rest[at..].chars().next() {
            match () {
                () if self.rest[at..].starts_with("/*") => (depth, at) = (depth + 1, at + 2),
                () if self.rest[at..].starts_with("*/") => (depth, at) = (depth - 1, at + 2),
                () => at += c.len_utf8(),
            }
            if depth == 0 {
                self.take(at, Class::Comment);
                return None;
            }
        }
        self.take_all(Class::Comment, Inside::BlockComment)
    }

    /// `"…"`: ends at a quote, or at the line break unless a backslash precedes it.
    fn quotes(&mut self) -> Option<Inside> {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.take(at + 1, Class::Text);
                    return None;
                }
                '\n' => {
                    self.take(at, Class::Text);
                    return None;
                }
                _ => {}
            }
        }
        self.take_all(Class::Text, Inside::Quotes)
    }

    /// `'c'`. A lone quote is left to the compiler to report.
    fn character(&mut self) -> Option<Inside> {
        let line = self.rest.split('\n').next().unwrap_or_default();
        let mut escaped = false;
        for (at, c) in line.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\'' => {
                    self.take(at + 1, Class::Text);
                    return None;
                }
                _ => {}
            }
        }
        self.take(1, Class::Code);
        None
    }

    /// The content of `` `…` `` up to its end or the next `${`. A doubled backtick is an escaped one.
    fn long_text(&mut self) -> Option<Inside> {
        let mut at = 0;
        while let Some(c) = self.rest[at..].chars().next() {
            if self.rest[at..].starts_with("``") {
                at += 2;
            } else if c == '`' {
                self.take(at + 1, Class::Text);
                return None;
            } else if self.rest[at..].starts_with("${") {
                self.take(at + 2, Class::Text);
                self.interpolations.push(self.open.len());
                self.open.push(self.classes.len() - 1);
                return None;
            } else {
                at += c.len_utf8();
            }
        }
        self.take_all(Class::Text, Inside::LongText)
    }

    /// `#"…"#`, with any number of `#`.
    fn raw_text(&mut self) -> Option<Inside> {
        let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        match self.rest[hashes + 1..].find(&end) {
            Some(length) => {
                self.take(hashes + 1 + length + end.len(), Class::Text);
                None
            }
            None => self.take_all(Class::Text, Inside::LongText),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(text: &str) -> String {
        Mask::new(text).code().map(|(_, c)| c).collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code("let a = \"x // \\\" y\"; // no\nb"), "let a = ; \nb");
        assert_eq!(code("a /* b /* c */ d */ e"), "a  e");
        assert_eq!(
            code("'\\'' + 'x' + `a ${ b + `c` } d` + #\"raw \" \"# + z"),
            " +  +  b +   +  + z"
        );
        assert_eq!(code("#{ a: 1 }"), "#{ a: 1 }");
    }

    #[test]
    fn the_end_state_is_found() {
        for (text, end, open) in [
            ("f(1, [2", Inside::Code, 2),
            ("f(1) // x", Inside::LineComment, 0),
            ("f(/* x", Inside::BlockComment, 1),
            ("import \"std/se", Inside::Quotes, 0),
            ("let t = `a\nb", Inside::LongText, 0),
            ("let t = `a ${ f(", Inside::Code, 2),
            ("let t = `a ${ f(1) } b", Inside::LongText, 0),
            ("let t = #\"a", Inside::LongText, 0),
            ("\"a\n b", Inside::Code, 0),
        ] {
            let mask = Mask::new(text);
            assert_eq!((mask.end, mask.open.len()), (end, open), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_classified_completely(text in "[\\PC\n`\"'#{}()$/*\\\\]{0,40}") {
            let mask = Mask::new(&text);
            prop_assert_eq!(mask.classes.len(), text.len());
            prop_assert!(mask.open.iter().all(|at| text.is_char_boundary(*at)));
        }
    }
}
