//! An input cut into its top-level items: imports, functions, constants and other statements.
//!
//! The session runs them one after the other, so that a constant is known to the functions that use it, and saves them as a
//! script without what was defined anew.

use std::ops::Range;

use super::mask::{Class, Mask};

/// One top-level item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// What it is.
    pub(super) kind: PieceKind,
    /// Its bytes in the input: comments before it included.
    pub(super) range: Range<usize>,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// `import "…" as alias`, the path a plain string: path and alias.
    Import { path: String, alias: String },
    /// A function, by name and number of parameters.
    Function { name: String, params: usize },
    /// `const …`.
    Constant,
    /// Anything else.
    Statement,
}

/// The items of `text`, in order; together they cover it.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mask = Mask::of(text);
    let mut cuts = Vec::new();
    let mut depth = 0_usize;
    // The last character of code that is no blank, since an item begins where a word follows `;` or `}`.
    let mut last: Option<char> = None;
    let mut in_function = false;
    for (at, c) in mask.code() {
        let begins_word = depth == 0 && is_word(c) && !text[..at].ends_with(is_word);
        if begins_word && matches!(last, None | Some(';' | '}')) {
            let item = ["fn", "private", "import", "const"].contains(&word_at(text, at));
            in_function = matches!(word_at(text, at), "fn" | "private");
            if item && last == Some('}') {
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
    let mut found: Vec<Piece> = Vec::new();
    let mut start = 0;
    for end in cuts {
        let blank = mask
            .code()
            .all(|(at, c)| !(start..end).contains(&at) || c.is_whitespace())
            && (start..end).all(|at| mask.class(at) != Class::Text);
        match found.last_mut() {
            // What follows the last item on its own is a comment.
            Some(previous) if blank => previous.range.end = end,
            _ if blank && end < text.len() => continue,
            _ => found.push(Piece {
                kind: kind(&text[start..end]),
                range: start..end,
            }),
        }
        start = end;
    }
    found
}

/// Where the code before `at` ends: comments in between belong to what follows.
fn end_of_code(mask: &Mask, at: usize) -> usize {
    mask.code()
        .rev()
        .skip_while(|(place, _)| *place >= at)
        .find(|(_, c)| !c.is_whitespace())
        .map_or(0, |(place, c)| place + c.len_utf8())
}

fn kind(text: &str) -> PieceKind {
    let mask = Mask::of(text);
    let Some((start, _)) = mask.code().find(|(_, c)| !c.is_whitespace()) else {
        return PieceKind::Statement;
    };
    match word_at(text, start) {
        "import" => import(text, start).unwrap_or(PieceKind::Statement),
        "const" => PieceKind::Constant,
        "fn" => function(&mask, start + 2).unwrap_or(PieceKind::Statement),
        "private" => text[start..]
            .find("fn")
            .and_then(|at| function(&mask, start + at + 2))
            .unwrap_or(PieceKind::Statement),
        _ => PieceKind::Statement,
    }
}

fn import(text: &str, start: usize) -> Option<PieceKind> {
    let rest = text[start + "import".len()..].trim_start().strip_prefix('"')?;
    let (path, rest) = rest.split_once('"')?;
    let alias = rest.trim_start().strip_prefix("as")?.trim_start();
    let alias = word_at(alias, 0);
    // An escape in the path is the interpreter's to read.
    (!alias.is_empty() && !path.contains('\\')).then(|| PieceKind::Import {
        path: path.to_owned(),
        alias: alias.to_owned(),
    })
}

/// Name and number of parameters, read from after `fn`.
fn function(mask: &Mask, after: usize) -> Option<PieceKind> {
    let mut code = mask.code().filter(|(at, _)| *at >= after);
    let (open, _) = code.by_ref().find(|(_, c)| *c == '(')?;
    let inside: String = code.map(|(_, c)| c).take_while(|c| *c != ')').collect();
    Some(PieceKind::Function {
        name: mask.text[after..open].trim().to_owned(),
        params: inside.split(',').filter(|param| !param.trim().is_empty()).count(),
    })
}

/// The word that begins at `at`.
pub(super) fn word_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
}

/// Whether a name can have this character.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(&str, PieceKind)> {
        pieces(text)
            .into_iter()
            .map(|piece| (&text[piece.range], piece.kind))
            .collect()
    }

    fn function(name: &str, params: usize) -> PieceKind {
        PieceKind::Function {
            name: name.to_owned(),
            params,
        }
    }

    #[test]
    fn items_are_told_apart() {
        let search = PieceKind::Import {
            path: "std/search".to_owned(),
            alias: "search".to_owned(),
        };
        assert_eq!(
            cut("import \"std/search\" as search; const A = 1;\n// twice\nfn twice(x) { x * 2 }\nlet y = twice(A); y"),
            [
                ("import \"std/search\" as search;", search),
                (" const A = 1;", PieceKind::Constant),
                ("\n// twice\nfn twice(x) { x * 2 }", function("twice", 1)),
                ("\nlet y = twice(A);", PieceKind::Statement),
                (" y", PieceKind::Statement),
            ]
        );
    }

    #[test]
    fn a_function_after_a_block_is_an_item_of_its_own() {
        assert_eq!(
            cut("if a { b; c } // then\nprivate fn f() { g(); }"),
            [
                ("if a { b; c }", PieceKind::Statement),
                (" // then\nprivate fn f() { g(); }", function("f", 0)),
            ]
        );
    }

    #[test]
    fn what_only_looks_like_an_item_is_not_cut() {
        assert_eq!(cut("let f = |x| { x; }; f").len(), 2);
        assert_eq!(cut("\"fn a() {}; const\" + `;`").len(), 1);
        assert_eq!(cut("#{ const_a: 1, b: [1, 2] }").len(), 1);
        assert_eq!(cut("x; // done\n"), [("x; // done\n", PieceKind::Statement)]);
        assert_eq!(cut("import base + \"/x\" as x;")[0].1, PieceKind::Statement);
    }

    #[test]
    fn pieces_cover_the_text() {
        for text in ["", "// only a comment", "fn f() {}", ";;", "a;\n\n"] {
            let joined: String = cut(text).iter().map(|(part, _)| *part).collect();
            assert_eq!(joined.trim(), text.trim(), "{text:?}");
        }
    }
}
