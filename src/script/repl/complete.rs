//! Tab completion and signature hints: the possible completions at the cursor, and the call that is being written.

use std::collections::BTreeSet;
use std::path::Path;

use rhai::{Engine, Token};

use super::COMMANDS;
use crate::script::lexer::{Inside, Lexed, is_word, last_word};
use crate::script::reference::{self, FunctionDoc, FunctionKind};
use crate::script::signature::{Signature, natives};

/// Returns where the word to complete starts, and its completions. Files are looked up relative to `folder`.
pub(super) fn complete(vocabulary: &Vocabulary, folder: &Path, before: &str) -> (usize, Vec<String>) {
    let (start, known) = known(vocabulary, folder, before);
    let mut fitting: Vec<String> = known.into_iter().filter(|name| name.starts_with(start)).collect();
    fitting.sort();
    fitting.dedup();
    (before.len() - start.len(), fitting)
}

/// The word at the cursor, and all words that are valid there.
fn known<'a>(vocabulary: &Vocabulary, folder: &Path, before: &'a str) -> (&'a str, Vec<String>) {
    if before.trim_start().starts_with(':') {
        return command(vocabulary, folder, before.trim_start());
    }
    let nothing = ("", Vec::new());
    let lexed = Lexed::new(before);
    match lexed.end {
        Inside::Code => {}
        Inside::Quotes => {
            let Some(start) = imported(&lexed) else { return nothing };
            let modules = vocabulary.modules.iter().cloned();
            return (start, modules.chain(files(folder, start, true)).collect());
        }
        Inside::LineComment | Inside::BlockComment | Inside::LongText => return nothing,
    }
    let start = last_word(before);
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let rest = &before[..before.len() - start.len()];
    if let Some(path) = rest.strip_suffix("::") {
        let call = |function: &FunctionDoc| match function.params.len() {
            0 => format!("{}()", function.name),
            _ => format!("{}(", function.name),
        };
        let inside = |function: &&FunctionDoc| function.module.as_deref() == Some(last_word(path));
        return (start, vocabulary.functions.iter().filter(inside).map(call).collect());
    }
    // `0..n` is a range, `?.` is safe member access.
    if let Some(value) = rest.strip_suffix('.')
        && !value.ends_with('.')
    {
        let expression = value.trim_end_matches('?');
        let kind = match last_word(expression) {
            number if is_number(number) => return nothing,
            "" => kind_of_call(vocabulary, expression),
            variable => vocabulary.variable(variable).map(|variable| variable.kind.clone()),
        };
        // Without a type, show no members until a name is begun, because there are too many of them.
        let is_known = kind.is_some() || !start.is_empty();
        let members = is_known.then(|| vocabulary.members(last_word(expression), kind.as_deref()));
        return (start, members.into_iter().flatten().collect());
    }
    if let Some(call) = map_argument(rest, &lexed) {
        let is_called =
            |function: &&FunctionDoc| function.path() == call || (function.on.is_some() && function.name == call);
        let functions = vocabulary.functions.iter().filter(is_called);
        let keys = functions.flat_map(|function| option_keys(&function.docs));
        // A key may also be the name of a variable, without a colon.
        return (start, keys.map(|key| format!("{key}: ")).collect());
    }
    if is_number(start) {
        nothing
    } else {
        (start, vocabulary.names().into_iter().collect())
    }
}

fn command<'a>(vocabulary: &Vocabulary, folder: &Path, line: &'a str) -> (&'a str, Vec<String>) {
    let Some((name, argument)) = line.split_once(' ') else {
        return (line, COMMANDS.map(str::to_owned).to_vec());
    };
    let known: Vec<String> = match name {
        ":help" => {
            let titles = vocabulary.functions.iter().map(|function| function.title());
            titles.chain(vocabulary.modules.clone()).collect()
        }
        ":load" | ":save" | ":save!" => files(folder, argument, false),
        _ => Vec::new(),
    };
    (argument, known)
}

/// Scripts and folders that start with `start`. Imports omit the extension.
fn files(folder: &Path, start: &str, import: bool) -> Vec<String> {
    let above = &start[..start.rfind('/').map_or(0, |slash| slash + 1)];
    let Ok(entries) = std::fs::read_dir(folder.join(above)) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // A terminal would interpret control characters, because these names are not escaped when printed.
            if name.contains(char::is_control) {
                return None;
            }
            let shown = if entry.path().is_dir() {
                if name.starts_with('.') {
                    return None;
                }
                format!("{name}/")
            } else if import {
                name.strip_suffix(".rhai")?.to_owned()
            } else {
                name.ends_with(".rhai").then_some(name)?
            };
            Some(format!("{above}{shown}"))
        })
        .collect()
}

/// Extracts option names in backticks from a doc comment: at the start of a list item or table row, in a list item with
/// several of them (``- memory: `a` (meaning), `b` ``), or before a parenthesis in a paragraph that starts with
/// `Options`.
fn option_keys(docs: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for line in docs.lines().map(str::trim_start) {
        if let Some(item) = ["- `", "* `", "| `"].iter().find_map(|mark| line.strip_prefix(mark)) {
            keys.extend(item.split(['`', ':', ' ']).next().map(str::to_owned));
        } else if let Some((_, several)) = line.strip_prefix("- ").and_then(|item| item.split_once(": ")) {
            let outside: String = several.split(['(', ')']).step_by(2).collect();
            keys.extend(quoted(&outside).map(|(name, _)| name.to_owned()));
        }
    }
    for paragraph in docs.split("\n\n").filter(|paragraph| paragraph.starts_with("Options")) {
        let explained = quoted(paragraph).filter(|(_, after)| after.trim_start().starts_with('('));
        keys.extend(explained.map(|(name, _)| name.to_owned()));
    }
    keys.retain(|name| !name.is_empty() && name.chars().all(is_word));
    keys
}

/// Each text in backticks, with the text up to the next one.
fn quoted(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut parts = text.split('`').skip(1);
    std::iter::from_fn(move || Some((parts.next()?, parts.next().unwrap_or_default())))
}

/// The function name at the end of `before`, and the value whose method it is. A definition is not a call.
fn callee(before: &str) -> Option<(&str, Option<&str>)> {
    let name = last_word(before);
    let rest = &before[..before.len() - name.len()];
    if name.is_empty() || last_word(rest.trim_end()) == "fn" {
        return None;
    }
    if let Some(path) = rest.strip_suffix("::") {
        let module = last_word(path);
        return Some((&before[path.len() - module.len()..], None));
    }
    match rest.strip_suffix('.') {
        Some(value) => Some((name, Some(last_word(value.strip_suffix('?').unwrap_or(value))))),
        None => Some((name, None)),
    }
}

/// The type that the call at the end of `text` returns.
fn kind_of_call(vocabulary: &Vocabulary, text: &str) -> Option<String> {
    let open = *Lexed::new(text.strip_suffix(')')?).open.last()?;
    let (path, on) = callee(&text[..open])?;
    vocabulary.called(path, on).first()?.returns.clone()
}

/// The import path at the end, if the open quote follows `import`.
fn imported<'a>(lexed: &Lexed<'a>) -> Option<&'a str> {
    match lexed.pieces.as_slice() {
        [.., import, path] if import.token == Token::Import => Some(&lexed.text[path.range.start + 1..]),
        _ => None,
    }
}

/// The call that the open map literal is an argument of, if a key can follow.
fn map_argument<'a>(rest: &'a str, lexed: &Lexed) -> Option<&'a str> {
    let mut open = lexed.open.iter().rev();
    let brace = *open.next()?;
    let is_map = rest[brace..].starts_with('{') && rest[..brace].ends_with('#');
    let after = rest.trim_end().chars().last()?;
    let paren = *open.next()?;
    if !is_map || !matches!(after, '{' | ',') || !rest[paren..].starts_with('(') {
        return None;
    }
    Some(callee(&rest[..paren])?.0)
}

/// The rest of the signature of the innermost open call at the end of `before`, if its function is known.
pub(super) fn hint(vocabulary: &Vocabulary, before: &str) -> Option<String> {
    let lexed = Lexed::new(before);
    if before.trim_start().starts_with(':') || matches!(lexed.end, Inside::LineComment | Inside::BlockComment) {
        return None;
    }
    let open = *lexed.open.iter().rev().find(|at| before[**at..].starts_with('('))?;
    let (path, on) = callee(&before[..open])?;
    // The argument at the cursor, and whether it has at least one character.
    let (mut argument, mut started, mut depth) = (0, false, 0);
    for piece in lexed.code().filter(|piece| piece.range.start > open) {
        depth += piece.nesting();
        started = depth != 0 || piece.token != Token::Comma;
        argument += usize::from(!started);
    }
    // The overload with the fewest parameters that has this argument; otherwise, before the first argument, one without
    // parameters.
    let functions = vocabulary.called(path, on);
    let accepts = |function: &&&FunctionDoc| function.params.len() > argument;
    let without = |function: &&&FunctionDoc| !started && argument == 0 && function.params.is_empty();
    let function = functions
        .iter()
        .find(accepts)
        .or_else(|| functions.iter().find(without))?;
    let rest: Vec<String> = function
        .params
        .iter()
        .skip(argument + usize::from(started))
        .map(ToString::to_string)
        .collect();
    let before_rest = if started && !rest.is_empty() {
        ", "
    } else if !started && before.ends_with(',') {
        " "
    } else {
        ""
    };
    let returns = function.returns.as_ref().map(|kind| format!(" -> {kind}"));
    Some(format!(
        "{before_rest}{}){}",
        rest.join(", "),
        returns.unwrap_or_default()
    ))
}

/// Rhai keywords.
const KEYWORDS: [&str; 25] = [
    "break", "catch", "const", "continue", "do", "else", "export", "false", "fn", "for", "global", "if", "import",
    "in", "let", "loop", "private", "return", "switch", "this", "throw", "true", "try", "until", "while",
];

#[derive(Clone, Debug, Default)]
pub(super) struct Vocabulary {
    /// Functions beyond Rhai's own, including those of the session.
    functions: Vec<FunctionDoc>,
    /// All functions registered from Rust, including Rhai's own.
    natives: Vec<Signature>,
    variables: Vec<Variable>,
    /// Modules that can be imported by name.
    modules: Vec<String>,
}

/// A variable of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type, as scripts call it.
    pub kind: String,
    /// Whether it is a constant.
    pub constant: bool,
    /// Its value on one short line.
    pub value: String,
    /// Its keys, if it is a map.
    pub(super) keys: Vec<String>,
}

impl Vocabulary {
    pub(super) fn new(engine: &Engine, variables: Vec<Variable>, modules: Vec<String>) -> Self {
        Self {
            functions: reference::functions(engine),
            natives: natives(engine),
            variables,
            modules,
        }
    }

    /// Names that can start an expression or statement.
    fn names(&self) -> BTreeSet<String> {
        let functions = self.functions.iter().filter_map(|function| match function.kind {
            FunctionKind::Function => Some(match &function.module {
                Some(module) if !module.contains('/') => format!("{module}::"),
                Some(_) => return None,
                None => function.name.clone(),
            }),
            _ => None,
        });
        let global = ["print", "debug", "type_of"].map(str::to_owned);
        KEYWORDS
            .map(str::to_owned)
            .into_iter()
            .chain(functions)
            .chain(global)
            .chain(self.variables.iter().map(|variable| variable.name.clone()))
            .collect()
    }

    fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    /// Methods and properties of a type, of all API types if it is unknown; and the keys of the variable `value`.
    fn members(&self, value: &str, kind: Option<&str>) -> BTreeSet<String> {
        let own = self
            .functions
            .iter()
            .filter(|function| matches!(function.kind, FunctionKind::Method | FunctionKind::Property))
            .filter(|function| function.on.is_some() && (kind.is_none() || function.on.as_deref() == kind))
            .map(|function| function.name.clone());
        // For an unknown type, Rhai's hundreds of methods would hide ours.
        let is_method = |one: &&Signature| {
            let on = one.params.first().map(|(_, kind)| kind.as_str());
            kind.is_some() && on == kind && one.namespace.is_empty() && one.name.chars().all(is_word)
        };
        let builtin = self.natives.iter().filter(is_method).map(|one| one.name.clone());
        let keys = self
            .variable(value)
            .map(|variable| variable.keys.clone())
            .into_iter()
            .flatten();
        own.chain(builtin).chain(keys).collect()
    }

    /// The functions that a call may refer to, fewest parameters first. `on` is the value of a method call, empty for
    /// an expression; `None` for a function call.
    fn called(&self, path: &str, on: Option<&str>) -> Vec<&FunctionDoc> {
        let kind = on
            .and_then(|value| self.variable(value))
            .map(|variable| variable.kind.as_str());
        let mut found: Vec<&FunctionDoc> = self
            .functions
            .iter()
            .filter(|function| match on {
                Some(_) => function.kind == FunctionKind::Method && function.name == path,
                None => function.kind == FunctionKind::Function && function.path() == path,
            })
            .filter(|function| kind.is_none() || function.on.as_deref() == kind)
            .collect();
        found.sort_by_key(|function| function.params.len());
        found
    }
}

#[cfg(test)]
mod complete_tests {
    #![allow(unreachable_pub, reason = "export_module wants `pub` functions")]

    use rhai::plugin::*;
    use rhai::{Engine, Map};

    use super::*;

    /// Containers.
    #[export_module]
    mod docker {
        /// Starts one.
        ///
        /// - `image`: what
        /// - `env: map`: how
        /// - memory: `memory_limit` (of `bytes`), `shm_size`
        ///
        /// Options beyond: `port` (which, of `ports`); `stop_grace`
        /// (seconds).
        pub fn start(options: Map) {
            let _ = options;
        }

        /// Stops all.
        pub fn stop_all() {}

        /// Their names.
        pub fn names() -> rhai::Array {
            rhai::Array::new()
        }
    }

    fn offered(before: &str) -> Vec<String> {
        let mut engine = Engine::new();
        engine.register_static_module("docker", exported_module!(docker).into());
        let variable = |name: &str, kind: &str, keys: &[&str]| Variable {
            name: name.to_owned(),
            kind: kind.to_owned(),
            constant: false,
            value: String::new(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        };
        let variables = vec![variable("answer", "map", &["verdict"]), variable("list", "array", &[])];
        let modules = vec!["std/engines".to_owned(), "std/search".to_owned()];
        let vocabulary = Vocabulary::new(&engine, variables, modules);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.rhai"), "").unwrap();
        std::fs::create_dir(folder.path().join("more")).unwrap();
        let (start, found) = complete(&vocabulary, folder.path(), before);
        found.iter().map(|name| format!("{}{name}", &before[..start])).collect()
    }

    #[test]
    fn names_modules_and_members_are_completed() {
        assert_eq!(offered("let x = ans"), ["let x = answer"]);
        assert_eq!(offered("dock"), ["docker::"]);
        assert_eq!(offered("docker::st"), ["docker::start(", "docker::stop_all()"]);
        assert_eq!(offered("answer.ver"), ["answer.verdict"]);
        assert_eq!(offered("list.pus"), ["list.push"]);
        assert!(offered("unknown.").is_empty());
        assert!(offered("docker::names().").contains(&"docker::names().push".to_owned()));
        assert!(!offered("docker::names().").contains(&"docker::names().keys".to_owned()));
        assert_eq!(offered("import \"std/s"), ["import \"std/search"]);
        assert_eq!(offered("import \"m"), ["import \"mine", "import \"more/"]);
        assert_eq!(offered("docker::start(#{ i"), ["docker::start(#{ image: "]);
        assert_eq!(
            offered("docker::start(#{ image: 1, "),
            [
                "env: ",
                "image: ",
                "memory_limit: ",
                "port: ",
                "shm_size: ",
                "stop_grace: "
            ]
            .map(|key| format!("docker::start(#{{ image: 1, {key}"))
        );
        assert_eq!(offered("f(answer?.ver"), ["f(answer?.verdict"]);
        assert_eq!(offered("0..ans"), ["0..answer"]);
        assert_eq!(
            offered("docker::start(#{ image: ans"),
            ["docker::start(#{ image: answer"]
        );
        assert_eq!(offered("`text ${ ans"), ["`text ${ answer"]);
        for nothing in ["\"docker::st", "print(\"std/se", "1 // ans", "1.", "12"] {
            assert!(offered(nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        assert_eq!(offered(":he"), [":help"]);
        assert_eq!(offered(":help docker::star"), [":help docker::start"]);
        assert_eq!(offered(":load mi"), [":load mine.rhai"]);
        assert!(offered(":scope x").is_empty());
    }
}

#[cfg(test)]
mod hint_tests {
    #![allow(unreachable_pub, reason = "export_module wants `pub` functions")]

    use rhai::plugin::*;
    use rhai::{Array, Engine, FnPtr, INT, Map};

    use super::*;

    /// Searches.
    #[export_module]
    mod search {
        /// Without options.
        pub fn grid(map: Map, probe: FnPtr) -> INT {
            let _ = (map, probe);
            0
        }

        /// With options.
        #[rhai_fn(name = "grid")]
        pub fn grid_with(map: Map, probe: FnPtr, options: Map) -> INT {
            let _ = (map, probe, options);
            0
        }

        /// Stops.
        pub fn stop() {}
    }

    /// Methods of two types.
    #[export_module]
    mod lists {
        /// Of a map.
        #[rhai_fn(name = "insert_all")]
        pub fn of_map(map: &mut Map, times: INT) -> INT {
            let _ = map;
            times
        }

        /// Of an array.
        #[rhai_fn(name = "insert_all")]
        pub fn of_array(array: &mut Array, probe: FnPtr, times: INT) -> INT {
            let _ = (array, probe);
            times
        }
    }

    #[test]
    fn the_rest_of_the_signature_is_shown() {
        let mut engine = Engine::new();
        engine.register_static_module("search", exported_module!(search).into());
        engine.register_global_module(exported_module!(lists).into());
        let list = Variable {
            name: "list".into(),
            kind: "array".into(),
            constant: false,
            value: String::new(),
            keys: Vec::new(),
        };
        let vocabulary = Vocabulary::new(&engine, vec![list], Vec::new());
        let shown = |before| hint(&vocabulary, before);
        // A method's first parameter is its receiver, whose type determines which function it is.
        assert_eq!(
            shown("list.insert_all(").as_deref(),
            Some("probe: function, times: int) -> int")
        );
        assert_eq!(
            shown("list.insert_all(#{ input: 1, ").as_deref(),
            Some(", times: int) -> int")
        );
        assert_eq!(
            shown("search::grid(").as_deref(),
            Some("map: map, probe: function) -> int")
        );
        assert_eq!(shown("search::grid(m").as_deref(), Some(", probe: function) -> int"));
        assert_eq!(shown("search::grid(m,").as_deref(), Some(" probe: function) -> int"));
        assert_eq!(shown("search::grid(m, |p| p.x").as_deref(), Some(") -> int"));
        assert_eq!(shown("search::grid(m, p, ").as_deref(), Some("options: map) -> int"));
        assert_eq!(shown("search::stop(").as_deref(), Some(")"));
        assert_eq!(shown("search::grid(m, p, #{}, "), None);
        assert_eq!(shown("search::grid(m, [2, 3], search::stop(").as_deref(), Some(")"));
        assert_eq!(
            shown("search::grid(f(4, [2, 3]), \",\", ").as_deref(),
            Some("options: map) -> int")
        );
        for nothing in [
            "unknown(",
            "search::grid(m, p) + ",
            "fn grid(a, ",
            "(1 + ",
            "search::grid(m // ",
        ] {
            assert_eq!(shown(nothing), None, "{nothing}");
        }
        assert_eq!(shown(":help search::grid("), None);
    }
}
