//! Splits an input into top-level items: imports, functions, constants and other statements.
//!
//! The session runs them one by one, so that functions can use earlier constants, and saves them without redefined
//! functions.

use std::ops::Range;

use super::mask::{Class, Mask};

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
mod tests {
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
