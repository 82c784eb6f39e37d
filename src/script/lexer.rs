//! Classifies each byte of a text as code, comment or string, and splits inputs into top-level items.
//!
//! Rhai's lexer fails on incomplete input, which an editor always has. The session runs items one by one, so that functions
//! can use earlier constants, and saves them without redefined functions.

use std::ops::Range;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// Its bytes in the input, including preceding comments.
    pub(super) range: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// `import "…" as alias` with a plain string as path.
    Import {
        path: String,
        alias: String,
    },
    Function {
        name: String,
        params: usize,
    },
    /// `const …`.
    Constant,
    Statement,
}

/// Splits `text` into items that cover it, in order.
pub(super) fn split_items(text: &str) -> Vec<Item> {
    let mask = Mask::new(text);
    let mut cuts = Vec::new();
    let mut depth = 0_usize;
    // The last code character that is not white space: an item starts where a word follows `;` or `}`.
    let mut last: Option<char> = None;
    let mut in_function = false;
    for (at, c) in mask.code() {
        let begins_word = depth == 0 && is_word(c) && !text[..at].ends_with(is_word);
        if begins_word && matches!(last, None | Some(';' | '}')) {
            let is_item = ["fn", "private", "import", "const"].contains(&word_at(text, at));
            in_function = matches!(word_at(text, at), "fn" | "private");
            if is_item && last == Some('}') {
                cuts.push(end_of_code(&mask, at));
            }
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = depth == 0 && (c == ';' || (c == '}' && in_function));
        if ends {
            cuts.push(at + c.len_utf8());
            in_function = false;
        }
        if !c.is_whitespace() {
            last = Some(c);
        }
    }
    cuts.push(text.len());
    cuts.dedup();
    let mut found: Vec<Item> = Vec::new();
    let mut start = 0;
    for end in cuts {
        let blank = mask
            .code()
            .all(|(at, c)| !(start..end).contains(&at) || c.is_whitespace())
            && (start..end).all(|at| mask.class(at) != Class::Text);
        match found.last_mut() {
            // A comment after the last item belongs to it.
            Some(previous) if blank => previous.range.end = end,
            _ if blank && end < text.len() => continue,
            _ => found.push(Item {
                kind: kind(&text[start..end]),
                range: start..end,
            }),
        }
        start = end;
    }
    found
}

/// The end of the code before `at`: comments in between belong to what follows.
fn end_of_code(mask: &Mask, at: usize) -> usize {
    mask.code()
        .rev()
        .skip_while(|(place, _)| *place >= at)
        .find(|(_, c)| !c.is_whitespace())
        .map_or(0, |(place, c)| place + c.len_utf8())
}

fn kind(text: &str) -> ItemKind {
    let mask = Mask::new(text);
    let Some((start, _)) = mask.code().find(|(_, c)| !c.is_whitespace()) else {
        return ItemKind::Statement;
    };
    match word_at(text, start) {
        "import" => import(text, start).unwrap_or(ItemKind::Statement),
        "const" => ItemKind::Constant,
        "fn" => function(&mask, start + 2).unwrap_or(ItemKind::Statement),
        "private" => text[start..]
            .find("fn")
            .and_then(|at| function(&mask, start + at + 2))
            .unwrap_or(ItemKind::Statement),
        _ => ItemKind::Statement,
    }
}

fn import(text: &str, start: usize) -> Option<ItemKind> {
    let rest = text[start + "import".len()..].trim_start().strip_prefix('"')?;
    let (path, rest) = rest.split_once('"')?;
    let alias = rest.trim_start().strip_prefix("as")?.trim_start();
    let alias = word_at(alias, 0);
    // Paths with escapes are left to the interpreter.
    (!alias.is_empty() && !path.contains('\\')).then(|| ItemKind::Import {
        path: path.to_owned(),
        alias: alias.to_owned(),
    })
}

/// Parses name and parameter count of a function; `after` is the position after `fn`.
fn function(mask: &Mask, after: usize) -> Option<ItemKind> {
    let mut code = mask.code().filter(|(at, _)| *at >= after);
    let (open, _) = code.by_ref().find(|(_, c)| *c == '(')?;
    let inside: String = code.map(|(_, c)| c).take_while(|c| *c != ')').collect();
    Some(ItemKind::Function {
        name: mask.text[after..open].trim().to_owned(),
        params: inside.split(',').filter(|param| !param.trim().is_empty()).count(),
    })
}

/// The word that starts at `at`.
pub(super) fn word_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
}

/// Whether a name can contain this character.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod mask_tests {
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

#[cfg(test)]
mod items_tests {
    use super::*;

    fn cut(text: &str) -> Vec<(&str, ItemKind)> {
        split_items(text)
            .into_iter()
            .map(|item| (&text[item.range], item.kind))
            .collect()
    }

    fn function(name: &str, params: usize) -> ItemKind {
        ItemKind::Function {
            name: name.to_owned(),
            params,
        }
    }

    #[test]
    fn items_are_split() {
        let search = ItemKind::Import {
            path: "std/search".to_owned(),
            alias: "search".to_owned(),
        };
        assert_eq!(
            cut("import \"std/search\" as search; const A = 1;\n// twice\nfn twice(x) { x * 2 }\nlet y = twice(A); y"),
            [
                ("import \"std/search\" as search;", search),
                (" const A = 1;", ItemKind::Constant),
                ("\n// twice\nfn twice(x) { x * 2 }", function("twice", 1)),
                ("\nlet y = twice(A);", ItemKind::Statement),
                (" y", ItemKind::Statement),
            ]
        );
    }

    #[test]
    fn a_function_after_a_block_is_an_item_of_its_own() {
        assert_eq!(
            cut("if a { b; c } // then\nprivate fn f() { g(); }"),
            [
                ("if a { b; c }", ItemKind::Statement),
                (" // then\nprivate fn f() { g(); }", function("f", 0)),
            ]
        );
    }

    #[test]
    fn text_that_looks_like_an_item_is_not_split() {
        assert_eq!(cut("let f = |x| { x; }; f").len(), 2);
        assert_eq!(cut("\"fn a() {}; const\" + `;`").len(), 1);
        assert_eq!(cut("#{ const_a: 1, b: [1, 2] }").len(), 1);
        assert_eq!(cut("x; // done\n"), [("x; // done\n", ItemKind::Statement)]);
        assert_eq!(cut("import base + \"/x\" as x;")[0].1, ItemKind::Statement);
    }

    #[test]
    fn items_cover_the_text() {
        for text in ["", "// only a comment", "fn f() {}", ";;", "a;\n\n"] {
            let joined: String = cut(text).iter().map(|(part, _)| *part).collect();
            assert_eq!(joined.trim(), text.trim(), "{text:?}");
        }
    }
}
