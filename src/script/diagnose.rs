//! Explains script errors: the error, its file and line, the call chain, and the remedy.
//!
//! The wrappers around an error show which file a position belongs to: a call's position is in the caller, the inner
//! error in the callee. Messages are rewritten in our style: lower case, names in backticks, script type names. The
//! parser reports some mistakes late, or as an unknown variable; these are searched for in the text itself.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use annotate_snippets::renderer::DEFAULT_TERM_WIDTH;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use rhai::{AST, Dynamic, Engine, EvalAltResult, LexError, ParseErrorType, Position, Token};

use super::convert::type_name;
use super::lexer::{Inside, Lexed, is_word, last_word, word_at};
use super::source::{Source, Sources};
use super::suggest::{did_you_mean, nearest};
use super::{own_calls, reference, shipped, signature};
use crate::fault::{Fault, Kind};

/// A fault with its position in a script.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The error.
    pub fault: Fault,
    place: Option<Place>,
    /// The call chain, innermost first: `called from …`.
    trace: Vec<String>,
}

impl Diagnostic {
    pub(super) fn at(fault: Fault, place: Option<Place>) -> Self {
        Self {
            fault,
            place,
            trace: Vec::new(),
        }
    }

    /// Formats the diagnostic like rustc, with colours if `colour` is set.
    pub fn render(&self, colour: bool) -> String {
        let mut group = Level::ERROR
            .primary_title(&*self.fault.message)
            .elements(self.place.iter().map(|place| {
                Snippet::source(&*place.source.text)
                    .path(&*place.source.key)
                    .annotation(AnnotationKind::Primary.span(place.span()))
            }));
        for step in &self.trace {
            group = group.element(Level::NOTE.message(step));
        }
        if let Some(hint) = &self.fault.hint {
            group = group.element(Level::HELP.message(hint));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.term_width(DEFAULT_TERM_WIDTH).render(&[group])
    }

    /// `file:line:column`, if the position is known.
    pub fn location(&self) -> Option<String> {
        self.place.as_ref().map(ToString::to_string)
    }
}

impl From<Fault> for Diagnostic {
    /// A fault without a position.
    fn from(fault: Fault) -> Self {
        Self::at(fault, None)
    }
}

impl From<Fault> for Box<Diagnostic> {
    fn from(fault: Fault) -> Self {
        Box::new(fault.into())
    }
}

/// One step of the call chain.
struct Frame {
    /// `called from`, `imported from`.
    how: &'static str,
    /// The part that was entered: `` `f` ``, `a closure`, `` `std/search.rhai` ``.
    what: String,
    file: String,
    at: Position,
}

/// Explains an error of an evaluation that started in the file `main`.
pub fn diagnose(engine: &Engine, sources: &Sources, main: &str, error: Box<EvalAltResult>) -> Diagnostic {
    let (mut frames, mut file, error) = unwrap(sources, main, error);
    let mut at = error.position();
    if let EvalAltResult::ErrorParsing(parse, _) = &*error
        && let Some(place) = Place::find(sources, &file, at)
        && let Some((fault, start)) = syntax_mistake(&place.source.text, parse, place.span().start)
    {
        return Diagnostic {
            place: Some(Place::at_byte(place.source, start)),
            fault,
            trace: frames.iter().rev().map(Frame::text).collect(),
        };
    }
    if let EvalAltResult::ErrorRuntime(value, _) = &*error
        && let Some(raised) = Raised::read(value)
    {
        let in_file = raised.file.as_deref().unwrap_or(&file);
        let fault = evaluation_fault(engine, sources, in_file, raised.error());
        return Diagnostic {
            place: Place::find(sources, in_file, raised.at),
            fault,
            trace: Vec::new(),
        };
    }
    let fault = evaluation_fault(engine, sources, &file, *error);
    // Native functions report no position: use the position of the call.
    if at.is_none() {
        at = sources.newest_call(&file).unwrap_or_default();
    }
    if at.is_none()
        && let Some(frame) = frames.pop()
    {
        (file, at) = (frame.file, frame.at);
    }
    let mut trace = Vec::new();
    // For an error in a shipped module, show the user's own line first.
    if is_shipped(&file)
        && let Some(own) = frames.iter().rposition(|frame| !is_shipped(&frame.file))
    {
        let inner = frames.split_off(own + 1);
        // Their own lines matter only for a bug in the module.
        if fault.kind.is_bug() {
            trace.push(format!("raised at {}", located(&file, at)));
            trace.extend(inner.iter().rev().map(Frame::text));
        }
        if let Some(frame) = frames.pop() {
            if fault.kind.is_bug() {
                trace.push(format!("inside {}", frame.what));
            }
            (file, at) = (frame.file, frame.at);
        }
    }
    let own = frames.iter().rev().filter(|frame| !is_shipped(&frame.file));
    trace.extend(own.map(Frame::text));
    Diagnostic {
        place: Place::find(sources, &file, at),
        fault,
        trace,
    }
}

/// Whether a file belongs to the standard library.
fn is_shipped(file: &str) -> bool {
    file.starts_with("std/")
}

/// Unwraps an error: the call chain (outermost first), the innermost file, the innermost error.
fn unwrap(sources: &Sources, main: &str, error: Box<EvalAltResult>) -> (Vec<Frame>, String, Box<EvalAltResult>) {
    let mut frames: Vec<Frame> = Vec::new();
    let mut file = main.to_owned();
    let mut error = error;
    loop {
        let (how, what, inner_file, inner, at) = match *error {
            EvalAltResult::ErrorInFunctionCall(name, source, inner, at) => {
                let name = own_calls::written(&name);
                let is_closure = name.starts_with(own_calls::CLOSURE);
                // The interpreter attributes a closure to the file that calls it.
                let defined = is_closure.then(|| file_of_closure(sources, name)).flatten();
                let called = if source.is_empty() { file.clone() } else { source };
                let inner_file = defined.unwrap_or(called);
                let what = if is_closure {
                    "a closure".to_owned()
                } else {
                    format!("`{name}`")
                };
                ("called from", what, inner_file, inner, at)
            }
            EvalAltResult::ErrorInModule(key, inner, at) => ("imported from", format!("`{key}`"), key, inner, at),
            _ => return (frames, file, error),
        };
        // A native function that calls back has the same position as the callback: one line is enough.
        let repeated = frames.last().is_some_and(|last| last.at == at && last.file == file);
        if repeated {
            frames.pop();
        }
        // A callback may have no call site in a script.
        if !at.is_none() {
            frames.push(Frame { how, what, file, at });
        }
        (file, error) = (inner_file, inner);
    }
}

/// An interpreter that only parses.
pub(super) fn grammar() -> Engine {
    let mut grammar = Engine::new_raw();
    grammar.set_max_expr_depths(0, 0);
    grammar
}

/// The file that defines a closure, by the name that the parser gave it.
fn file_of_closure(sources: &Sources, name: &str) -> Option<String> {
    let mut grammar = grammar();
    own_calls::register(&mut grammar);
    let defines = |source: &Source| {
        // The name depends on the calls inside, which are compiled in another way in the REPL.
        let compiled = [grammar.compile(&*source.text), own_calls::compile(&grammar, source)];
        let mut functions = compiled.iter().flatten().flat_map(AST::iter_functions);
        functions.any(|function| function.name == name)
    };
    let source = sources.all().into_iter().find(defines)?;
    Some(source.key.to_string())
}

impl Frame {
    fn text(&self) -> String {
        format!("{} {} {}", self.what, self.how, located(&self.file, self.at))
    }
}

/// `file:line:column`.
fn located(file: &str, at: Position) -> String {
    match at.line() {
        Some(line) => format!("{file}:{line}:{}", at.position().unwrap_or(1)),
        None => file.to_owned(),
    }
}

#[derive(Clone, Debug)]
pub(in crate::script) struct Place {
    pub(super) source: Source,
    line: usize,
    column: usize,
}

impl Place {
    /// The place of a position, if it and the text are known.
    pub(in crate::script) fn find(sources: &Sources, key: &str, at: Position) -> Option<Self> {
        Some(Self::new(sources.get(key)?, at))
    }

    /// A place in a text; its beginning if there is no position.
    pub(in crate::script) fn new(source: Source, at: Position) -> Self {
        Self {
            source,
            line: at.line().unwrap_or(1),
            column: at.position().unwrap_or(1),
        }
    }

    /// The place of a byte of a text.
    fn at_byte(source: Source, byte: usize) -> Self {
        let before = &source.text[..byte];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            source,
        }
    }

    /// The place of a function's definition; the beginning of the text if it has none.
    pub(super) fn of_function(source: Source, name: &str) -> Self {
        let at = source.text.find(&format!("fn {name}("));
        Self::at_byte(source, at.unwrap_or(0))
    }

    /// Byte range of the token at this place.
    pub(super) fn span(&self) -> Range<usize> {
        let text = &*self.source.text;
        let start = byte_at(text, self.line, self.column);
        start..start + width(text[start..].lines().next().unwrap_or_default())
    }
}

/// The byte of a line and a column, which count characters from 1; the line's end if it is shorter.
pub(super) fn byte_at(text: &str, line: usize, column: usize) -> usize {
    let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let line = text[start..].lines().next().unwrap_or_default();
    let before = line.chars().take(column.saturating_sub(1)).map(char::len_utf8);
    start + before.sum::<usize>()
}

/// Byte length of the token at the start of `rest`, accurate enough for underlining.
fn width(rest: &str) -> usize {
    let Some(first) = rest.chars().next() else { return 0 };
    match first {
        '"' | '`' | '\'' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
        c if is_word(c) => {
            // A qualified name counts as one token.
            let mut end = word_at(rest, 0).len();
            while let Some(more) = rest[end..].strip_prefix("::")
                && more.starts_with(is_word)
            {
                end += 2 + word_at(more, 0).len();
            }
            end
        }
        c => c.len_utf8(),
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source.key, self.line, self.column)
    }
}

/// The fault for an error without wrappers, raised in `file`.
fn evaluation_fault(engine: &Engine, sources: &Sources, file: &str, mut error: EvalAltResult) -> Fault {
    use EvalAltResult as E;
    let script = |message: String| Fault::new(Kind::Script, message);
    let limit = |message: &str| Fault::new(Kind::Limit, message);
    let near = |name: &str| {
        let source = sources.get(file)?;
        nearest(name, identifiers(&source.text).map(|(_, word)| word)).map(str::to_owned)
    };
    match &error {
        E::ErrorRuntime(value, _) => thrown(value),
        E::ErrorTerminated(value, _) => value.clone().try_cast().unwrap_or_else(Fault::interrupted),
        E::ErrorParsing(error, _) => parse_fault(engine, error, near),
        E::ErrorFunctionNotFound(call, _) => signature::not_found(engine, sources, file, call),
        E::ErrorVariableNotFound(name, _) => {
            let fault = script(format!("unknown variable `{name}`"));
            let otherwise = "functions see only their parameters; a constant of the file is `global::NAME`";
            did_you_mean(fault, near(name), otherwise)
        }
        E::ErrorPropertyNotFound(name, _) => {
            let fault = script(format!("the map has no key `{name}`"));
            let otherwise = format!("if it may be absent, write `.get(\"{name}\") ?? default`");
            did_you_mean(fault, near_key(engine, sources, file, name), otherwise)
        }
        E::ErrorDotExpr(text, _) => match unknown_property(text) {
            Some((property, kind)) => signature::no_property(engine, property, kind),
            None => script(rephrase(text)),
        },
        E::ErrorMismatchDataType(wanted, found, _) | E::ErrorMismatchOutputType(wanted, found, _) => {
            script(match (type_name(wanted), type_name(found)) {
                (wanted, found) if found.is_empty() => format!("expected {wanted}"),
                (wanted, found) if wanted.is_empty() => format!("{found} does not fit here"),
                (wanted, found) => format!("expected {wanted}, found {found}"),
            })
        }
        E::ErrorAssignmentToConstant(name, _) => {
            script(format!("`{name}` is constant")).hint("define it with `let` to change it")
        }
        E::ErrorUnboundThis(_) => {
            script("`this` is not bound".into()).hint("call the function as a method: `value.f()`")
        }
        E::ErrorFor(_) => script("`for` needs something to iterate over".into())
            .hint("an array, a range such as `0..10`, or `map.keys()`"),
        E::ErrorStackOverflow(_) => limit("calls nest deeper than 64 levels").hint("replace the recursion by a loop"),
        E::ErrorDataTooLarge(what, _) => limit(&format!("too much data: {}", rephrase(what)))
            .hint("limits, including nested values: arrays 4,000,000 elements, maps 2,000,000 entries, strings 64 MiB"),
        E::ErrorTooManyModules(_) => limit("more than 64 imports").hint("import once, at the top of the file"),
        E::ErrorTooManyVariables(_) => limit("more than 10,000 variables"),
        _ => {
            error.clear_position();
            script(rephrase(&error.to_string()))
        }
    }
}

/// An error of the interpreter that a script caught and threw again.
struct Raised {
    text: String,
    /// The file that raised it, if the `try` is in another one.
    file: Option<String>,
    at: Position,
}

impl Raised {
    /// The error again, by its text.
    fn error(&self) -> EvalAltResult {
        use EvalAltResult as E;
        let (kind, subject) = self.text.split_once(" not found: ").unwrap_or_default();
        let subject = subject.to_owned();
        match kind {
            "Function" => E::ErrorFunctionNotFound(subject, self.at),
            "Variable" => E::ErrorVariableNotFound(subject, self.at),
            "Property" => E::ErrorPropertyNotFound(subject, self.at),
            _ => E::ErrorDotExpr(self.text.clone(), self.at),
        }
    }

    /// Reads what `catch` gives for an error: a map with the text, and the place of the failed call in the `try` block.
    /// The text ends with the place where it was raised, if that is elsewhere: `no such function @ 'mine.rhai' (line 8, position 20)`.
    fn read(thrown: &Dynamic) -> Option<Self> {
        let map = thrown.read_lock::<rhai::Map>()?;
        let number = |key: &str| u16::try_from(map.get(key)?.as_int().ok()?).ok();
        let text = |key: &str| map.get(key)?.clone().into_string().ok();
        let (_, message) = (map.get("error")?, text("message")?);
        let raised = message.lines().next()?;
        let elsewhere = raised.rsplit_once(" @ '").and_then(|(text, place)| {
            let (file, place) = place.strip_suffix(')')?.split_once("' (line ")?;
            let (line, column) = place.split_once(", position ")?;
            Some(Self {
                text: text.to_owned(),
                file: Some(file.to_owned()),
                at: Position::new(line.parse().ok()?, column.parse().ok()?),
            })
        });
        elsewhere.or_else(|| {
            Some(Self {
                text: raised.to_owned(),
                file: text("source").filter(|source| !source.is_empty()),
                at: Position::new(number("line")?, number("position")?),
            })
        })
    }
}

/// Extracts property and type from `Unknown property 'x' - a getter is not registered for type 'T'`.
fn unknown_property(text: &str) -> Option<(&str, &str)> {
    let mut quoted = text.strip_prefix("Unknown property ")?.split('\'');
    Some((quoted.nth(1)?, quoted.nth(1)?))
}

/// The fault for an uncaught `throw`.
fn thrown(value: &Dynamic) -> Fault {
    match value.clone().try_cast() {
        Some(fault) => fault,
        None if value.is_unit() => Fault::new(Kind::Script, "the script failed"),
        None => Fault::new(Kind::Script, value.to_string()),
    }
}

/// Shorter names are one typo away from too many others.
const SHORTEST_KEY: usize = 4;

/// The closest name to a missing key: a key or property in the file, or a name in the documentation of the API.
fn near_key(engine: &Engine, sources: &Sources, file: &str, name: &str) -> Option<String> {
    if name.len() < SHORTEST_KEY {
        return None;
    }
    let near = |text: &str| {
        let is_key = |(at, word): &(usize, &str)| {
            text[..*at].ends_with('.') || text[at + word.len()..].trim_start().starts_with(':')
        };
        nearest(name, identifiers(text).filter(is_key).map(|(_, word)| word)).map(str::to_owned)
    };
    // Then search the user's other files (the earlier inputs of a session), and the documentation.
    let mut files = sources.get(file).into_iter().chain(sources.own());
    let documented = || {
        let functions = reference::functions(engine);
        let quoted = functions
            .iter()
            .flat_map(|function| function.docs.split('`').skip(1).step_by(2));
        nearest(name, quoted.flat_map(identifiers).map(|(_, word)| word)).map(str::to_owned)
    };
    files.find_map(|source| near(&source.text)).or_else(documented)
}

/// The names in a text, with their positions.
fn identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let begins = |at: usize| !text[..at].ends_with(is_word) && !text[at..].starts_with(|c: char| c.is_ascii_digit());
    let starts = text.match_indices(is_word).filter(move |(at, _)| begins(*at));
    starts.map(|(at, _)| (at, word_at(text, at)))
}

/// Rewrites a sentence of the interpreter: `Foo 'bar'.` becomes ``foo `bar` ``.
fn rephrase(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let first = chars.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    let rest = chars.as_str().replace('\'', "`");
    format!("{first}{}", rest.trim_end_matches('.'))
}

/// The fault for a parse error. `suggest` finds the closest word of the file.
fn parse_fault(engine: &Engine, error: &ParseErrorType, suggest: impl Fn(&str) -> Option<String>) -> Fault {
    use ParseErrorType as P;
    let fault = |message: String| Fault::new(Kind::Compile, message);
    match error {
        P::VariableUndefined(name) => {
            let fault = fault(format!("unknown variable `{name}`"));
            let otherwise = "define it with `let` first; functions see only their parameters";
            did_you_mean(fault, suggest(name), otherwise)
        }
        P::ModuleUndefined(name) => unknown_module(engine, name, suggest(name)),
        P::MissingToken(token, purpose) => fault(format!("expected `{token}` {purpose}")),
        P::MissingSymbol(purpose) => fault(format!("expected a symbol {purpose}")),
        P::UnexpectedEOF => fault("the script ends in the middle of a statement".into())
            .hint("close what is open: `}`, `)`, `]` or a quote"),
        P::Reserved(word) => fault(format!("`{word}` is a reserved word")).hint("choose another name"),
        P::BadInput(LexError::ImproperSymbol(symbol, _)) if symbol == "eval" => {
            fault("`eval` is disabled".into()).hint("write a function or a closure instead")
        }
        P::ExprTooDeep => fault("the expression nests too deeply".into()).hint("split it with `let`"),
        P::TooManyFunctions => fault("the script defines more than 1,000 functions".into()),
        other => fault(rephrase(&other.to_string())),
    }
}

/// The fault for a namespace that does not exist.
fn unknown_module(engine: &Engine, name: &str, suggest: Option<String>) -> Fault {
    let fault = Fault::new(Kind::Compile, format!("unknown module `{name}`"));
    if shipped::modules().any(|module| module == name) {
        return fault.hint(format!("import it: `import \"std/{name}\" as {name};`"));
    }
    let natives = signature::natives(engine);
    let known = natives.iter().map(|signature| signature.namespace.as_str());
    let near = nearest(name, known).map(str::to_owned).or(suggest);
    did_you_mean(fault, near, "import your own file with `import \"./file\" as name;`")
}

/// A better explanation of the parse error at byte `at`, and the byte where the mistake is.
fn syntax_mistake(text: &str, error: &ParseErrorType, at: usize) -> Option<(Fault, usize)> {
    map_without_hash(text, at)
        .or_else(|| unclosed(text, error, at))
        .or_else(|| foreign_word(text, at))
}

fn mistake(message: impl Into<String>, hint: impl Into<String>) -> Fault {
    Fault::new(Kind::Compile, message).hint(hint)
}

/// `{ key: value }`, which Rhai reads as a block of statements.
fn map_without_hash(text: &str, at: usize) -> Option<(Fault, usize)> {
    let brace = *Lexed::new(&text[..at]).open.last()?;
    let (before, inside) = (&text[..brace], text[brace..].strip_prefix('{')?);
    if before.ends_with(['#', '$']) || !starts_with_key(inside) {
        return None;
    }
    let message = "`{` begins a block of statements, not a map";
    Some((mistake(message, "a map is written `#{ ... }`"), brace))
}

/// Whether the text begins with `name:` or `"name":`, after comments.
fn starts_with_key(text: &str) -> bool {
    let lexed = Lexed::new(text);
    let mut code = lexed.code();
    match (code.next(), code.next()) {
        (Some(key), Some(colon)) => {
            colon.token == Token::Colon && text[key.range.start..].starts_with(|c| c == '"' || is_word(c))
        }
        _ => false,
    }
}

/// An unclosed bracket. After a missing `}` the parser reads on to the end of the file, or reports the following code
/// as unknown variables of a function.
fn unclosed(text: &str, error: &ParseErrorType, at: usize) -> Option<(Fault, usize)> {
    use ParseErrorType as P;
    let by_bracket = matches!(
        error,
        P::UnexpectedEOF | P::MissingToken(..) | P::VariableUndefined(_) | P::WrongFnDefinition
    );
    let lexed = Lexed::new(text);
    if !by_bracket || !matches!(lexed.end, Inside::Code | Inside::LineComment) {
        return None;
    }
    let open = open_bracket(&lexed)?;
    let bracket = &text[open..=open];
    let is_end = lexed.code().all(|piece| piece.range.start < at);
    // The parser reports a missing `)` or `]` where it belongs, unless the text ends there.
    if open >= at || (bracket != "{" && !is_end) {
        return None;
    }
    let message = format!("this `{bracket}` is not closed");
    let close = closing(bracket);
    Some((mistake(message, format!("add the `{close}` that ends it")), open))
}

fn closing(open: &str) -> &'static str {
    match open {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}

/// The innermost unclosed bracket, or the first one that a bracket of another kind closes.
fn open_bracket(lexed: &Lexed) -> Option<usize> {
    let mut open: Vec<usize> = Vec::new();
    for piece in lexed.code() {
        let at = piece.range.end - 1;
        match piece.nesting() {
            1 => open.push(at),
            -1 => {
                let start = open.pop()?;
                if closing(&lexed.text[start..=start]) != &lexed.text[at..=at] {
                    return Some(start);
                }
            }
            _ => {}
        }
    }
    open.pop()
}

/// Keywords of Python, JavaScript and others, and their equivalents in Rhai.
const FOREIGN: [(&str, &str); 10] = [
    ("def function func", "a function is written `fn name(a, b) { ... }`"),
    ("lambda", "a closure is written `|a, b| a + b`"),
    ("None null nil undefined NULL", "no value is written `()`"),
    ("True", "write `true`"),
    ("False", "write `false`"),
    ("and", "write `&&`"),
    ("or", "write `||`"),
    ("not", "write `!`"),
    ("elif elsif", "write `else if`"),
    ("var", "a variable is defined with `let`"),
];

fn foreign_word(text: &str, at: usize) -> Option<(Fault, usize)> {
    let rest = text.get(at..)?;
    if rest.starts_with('#') && !rest.starts_with("#{") {
        return Some((
            mistake("`#` does not begin a comment", "a comment begins with `//`"),
            at,
        ));
    }
    // The parser may report the word after the foreign one.
    let before = text[..at].trim_end();
    let previous = before.len() - last_word(before).len();
    [at, previous].into_iter().find_map(|at| {
        let word = word_at(text, at);
        let (_, hint) = FOREIGN
            .iter()
            .find(|(words, _)| words.split(' ').any(|one| one == word))?;
        Some((mistake(format!("`{word}` is not a word of Rhai"), *hint), at))
    })
}

#[cfg(test)]
mod tests {
    use rhai::Position;

    use super::Place;
    use crate::script::source::Source;

    fn spanned(text: &str, line: u16, column: u16) -> String {
        let place = Place::new(Source::new("a.rhai", text), Position::new(line, column));
        text[place.span()].to_owned()
    }

    #[test]
    fn the_span_is_the_whole_token() {
        assert_eq!(spanned("let x = 1;\nlet ü = wrong + 2;", 2, 9), "wrong");
        assert_eq!(spanned("docker::start(1)", 1, 1), "docker::start");
        assert_eq!(spanned("x = \"ab c\";", 1, 5), "\"ab c\"");
        assert_eq!(spanned("a + b", 1, 3), "+");
    }

    #[test]
    fn a_position_past_the_end_is_empty() {
        assert_eq!(spanned("let x = ", 1, 40), "");
        assert_eq!(spanned("", 7, 3), "");
    }
}

#[cfg(test)]
mod syntax_tests {
    use rhai::Engine;

    use super::{byte_at, syntax_mistake};

    /// The text from the place of a mistake on, and its hint.
    #[track_caller]
    fn found(text: &str) -> Option<(&str, String)> {
        let mut engine = Engine::new();
        engine.set_strict_variables(true);
        let error = engine.compile(text).unwrap_err();
        let (fault, at) = syntax_mistake(
            text,
            error.err_type(),
            byte_at(
                text,
                error.position().line().unwrap_or(1),
                error.position().position().unwrap_or(1),
            ),
        )?;
        Some((&text[at..], fault.hint.unwrap()))
    }

    #[test]
    fn a_map_needs_its_hash() {
        for text in [
            "f({ input: [1, 2] }, #{})",
            "f(#{ a: { \"b c\": 1 } })",
            "let m = {\n  // one\n  model: 1,\n};",
        ] {
            let (at, hint) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert!(
                at.starts_with('{') && hint.contains("`#{ ... }`"),
                "{text}: {at}: {hint}"
            );
        }
    }

    #[test]
    fn the_open_bracket_is_found() {
        for (text, place) in [
            ("fn f(x) {\n    x\n\nlet map = 1;\nprint(map);\n", "{\n    x"),
            ("let x = 1;\nwhile x < 3 {\n    if x == 2 { x += 1; }\n", "{\n    if"),
            ("let list = [1, 2", "[1"),
            ("print(1 + (2", "(2"),
            ("let a = []; let b = a?[0", "[0"),
        ] {
            let (at, _) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert!(at.starts_with(place), "{text}: {at}");
        }
        assert_eq!(
            found("let x = [1, 2;\nlet y = 3;"),
            None,
            "the parser points there by itself"
        );
    }

    #[test]
    fn words_of_other_languages_are_explained() {
        for (text, word, hint) in [
            ("def f(x):\n    x", "def", "fn name"),
            ("let x = None;", "None", "`()`"),
            ("let x = null;", "null", "`()`"),
            ("let x = 1; if x == 1 and x == 2 { 1 }", "and", "`&&`"),
            ("let x = 1; if x == 1 { 1 } elif x == 2 { 1 }", "elif", "`else if`"),
            ("# comment\nlet x = 1;", "# comment", "`//`"),
        ] {
            let (at, said) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert!(at.starts_with(word) && said.contains(hint), "{text}: {at}: {said}");
        }
    }
}
