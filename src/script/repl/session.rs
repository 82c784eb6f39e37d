//! The state of a REPL session: variables, functions, imports, constants, and the successful inputs.
//!
//! Inputs run like consecutive lines of one script. Rhai itself forgets functions, imports and constants between
//! evaluations, so each part of an input registers them with the interpreter when it is done.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhai::{AST, Dynamic, Engine, EvalAltResult, Expr, Map, Module, Scope, Stmt, Token};

use super::complete::{Variable, Vocabulary};
use super::pretty::{Line, brief, line, pretty};
use crate::fault::{Fault, Kind, Result};
use crate::run::{Folder, hide_keys};
use crate::script::convert::type_name;
use crate::script::lexer::{Inside, Lexed, Piece};
use crate::script::reference::Reference;
use crate::script::resolver::{is_constant, part_of};
use crate::script::{Diagnostic, Host, Source, diagnose, from_script, guarded, interpreter, shipped};

/// The module of the session's constants. It replaces `global` before compilation and has the same length, which keeps
/// positions. A module named `global` would hide the constants of imported modules.
const CONSTANTS: &str = "_const";

/// Most characters of a value in a list of variables.
const BRIEF: usize = 60;

/// A REPL session. It must stay on a thread with a large enough stack for the interpreter.
pub struct Session {
    host: Arc<Host>,
    /// Imports are relative to this folder and must stay below it.
    pub(super) root: PathBuf,
    engine: Engine,
    scope: Scope<'static>,
    /// Successful inputs, oldest first.
    succeeded: Vec<Input>,
    /// Number of inputs so far. Each is its own source, for diagnostics.
    inputs: usize,
    /// The value of the last input that had one.
    last: Dynamic,
}

impl Session {
    /// Creates an empty session. Imports are relative to `root` and must stay below it.
    pub fn new(host: &Arc<Host>, root: &Path) -> Self {
        let mut session = Self {
            host: Arc::clone(host),
            root: root.to_owned(),
            engine: interpreter(host, root),
            scope: Scope::new(),
            succeeded: Vec::new(),
            inputs: 0,
            last: Dynamic::UNIT,
        };
        session.publish_constants();
        session
    }

    /// Runs one input and returns its value on one line, unless that is `()`.
    ///
    /// Variables that a failing input defined are removed, so that saved scripts work; its other changes stay.
    pub fn run(&mut self, text: &str) -> Result<Option<Line>, Box<Diagnostic>> {
        self.inputs += 1;
        self.run_source(&Source::new(&format!("input {}", self.inputs), text))
    }

    /// Runs a file as if it were typed. Its imports are relative to its own folder and must stay below the session's.
    pub fn load(&mut self, file: &Path) -> Result<Option<Line>, Box<Diagnostic>> {
        let text = crate::script::added::read(file)?;
        self.host.permits.load_file();
        self.run_source(&Source::new(&file.to_string_lossy(), &text))
    }

    /// Runs a text, such as the script that the session was started with.
    pub fn run_source(&mut self, source: &Source) -> Result<Option<Line>, Box<Diagnostic>> {
        self.host.sources.insert(source.clone());
        self.host.meter.reset();
        let variables = self.scope.len();
        let value = guarded(|| {
            self.evaluate(source)
                .map_err(|error| Box::new(diagnose(&self.engine, &self.host.sources, &source.key, error)))
        });
        match value {
            Ok((value, ast)) => {
                self.succeeded.push(Input::new(&source.text, &ast));
                if value.is_unit() {
                    return Ok(None);
                }
                let shown = line(&self.engine, &value, self.host.settings.page.width);
                self.last = value;
                Ok(Some(shown))
            }
            Err(diagnostic) => {
                if self.scope.len() != variables {
                    self.scope.rewind(variables);
                    self.publish_constants();
                }
                Err(diagnostic)
            }
        }
    }

    fn evaluate(&mut self, source: &Source) -> Result<(Dynamic, AST), Box<EvalAltResult>> {
        // If an input does not compile, none of it runs.
        let mut ast = self
            .engine
            .compile_with_scope(&self.scope, with_constants(&source.text))
            .map_err(|error| EvalAltResult::ErrorParsing(*error.0, error.1))?;
        ast.set_source(&*source.key);
        self.import(&ast, source)?;
        if ast.has_functions() {
            self.engine.register_global_module(ast.shared_lib().clone());
        }
        let mut value = Dynamic::UNIT;
        let mut imports: Vec<&Stmt> = Vec::new();
        // Functions see constants only after they are published.
        for part in ast.statements().split_inclusive(is_constant) {
            let known = self.scope.len();
            let part_ast = part_of(source, imports.iter().copied().chain(part), Module::new());
            let evaluated = self.engine.eval_ast_with_scope(&mut self.scope, &part_ast);
            if self.scope.len() != known || part.last().is_some_and(is_constant) {
                self.publish_constants();
            }
            value = evaluated?;
            // The compiler counts imports backwards from their use, so each part gets the imports before it.
            imports.extend(part.iter().filter(|statement| matches!(statement, Stmt::Import(..))));
        }
        Ok((value, ast))
    }

    /// Makes the named imports of an input available to all later inputs and to functions.
    fn import(&mut self, ast: &AST, source: &Source) -> Result<(), Box<EvalAltResult>> {
        let by_name =
            |one: &&Stmt| matches!(one, Stmt::Import(import, _) if matches!(import.0, Expr::StringConstant(..)));
        let imports = part_of(source, ast.statements().iter().filter(by_name), Module::new());
        // A module's imports are its sub-modules and can be extracted from it.
        let holder = Module::eval_ast_as_new(Scope::new(), &imports, &self.engine)?;
        for (alias, module) in holder.iter_sub_modules() {
            self.engine.register_static_module(alias, module.clone());
        }
        Ok(())
    }

    /// Makes the session's constants visible to functions as `global::NAME`.
    fn publish_constants(&mut self) {
        let mut constants = Module::new();
        for (name, constant, value) in self.scope.iter() {
            if constant {
                constants.set_var(name, value);
            }
        }
        self.engine.register_static_module(CONSTANTS, constants.into());
    }

    /// The whole last value.
    pub fn last(&self) -> String {
        pretty(&self.engine, &self.last)
    }

    /// The last value as JSON.
    pub fn last_json(&self) -> Result<serde_json::Value> {
        from_script(&self.last)
    }

    /// Writes the successful inputs as a script, without secrets.
    pub fn save(&self, file: &Path, replace: bool) -> Result<()> {
        let script = saved_script(&self.succeeded);
        let text = hide_keys(&script);
        let exists = || {
            Fault::new(Kind::Io, format!("`{}` exists", file.display()))
                .hint(format!("`:save! {}` replaces it", file.display()))
        };
        if !replace && std::fs::symlink_metadata(file).is_ok() {
            return Err(exists());
        }
        let name = file
            .file_name()
            .ok_or_else(|| Fault::usage("this is no name of a file"))?;
        let parent = file
            .parent()
            .filter(|parent| *parent != Path::new(""))
            .unwrap_or(Path::new("."));
        Folder::open(parent)?.replace(Path::new(name), |to| std::io::Write::write_all(to, text.as_bytes()))
    }

    /// Forgets everything. The caller stops the services.
    pub fn reset(&mut self) {
        *self = Self {
            inputs: self.inputs,
            ..Self::new(&self.host, &self.root)
        };
    }

    /// The visible variables, oldest first.
    pub fn variables(&self) -> Vec<Variable> {
        let mut variables: Vec<Variable> = Vec::new();
        // Newest first, and by reference: this runs at every prompt, and values may be large.
        for (name, constant, value) in self.scope.iter_raw() {
            if variables.iter().any(|newer| newer.name == name) {
                continue;
            }
            let keys = value
                .read_lock::<Map>()
                .map(|map| map.keys().map(ToString::to_string).collect());
            variables.push(Variable {
                name: name.to_owned(),
                kind: self.type_of(value),
                constant,
                value: brief(&self.engine, value, BRIEF),
                keys: keys.unwrap_or_default(),
            });
        }
        variables.reverse();
        variables
    }

    fn type_of(&self, value: &Dynamic) -> String {
        type_name(self.engine.map_type_name(value.type_name()))
    }

    /// The text of `:help NAME`, as Markdown.
    pub fn help(&self, name: &str) -> Result<String> {
        Ok(Reference::new(&self.engine).find(name)?.excerpt())
    }

    pub(super) fn vocabulary(&self) -> Vocabulary {
        let modules = shipped::modules().map(|name| format!("std/{name}")).collect();
        Vocabulary::new(&self.engine, self.variables(), modules)
    }
}

/// Replaces `global::` by the module of the session's constants, without changing positions.
fn with_constants(text: &str) -> String {
    let mut changed = text.to_owned();
    for pair in Lexed::new(text).pieces.windows(2) {
        if text[pair[0].range.clone()] == *"global" && pair[1].token == Token::DoubleColon {
            changed.replace_range(pair[0].range.clone(), CONSTANTS);
        }
    }
    changed
}

/// An input that succeeded.
struct Input {
    text: String,
    is_only_imports: bool,
}

impl Input {
    fn new(text: &str, ast: &AST) -> Self {
        Self {
            text: text.trim().to_owned(),
            is_only_imports: ast.statements().iter().all(|one| matches!(one, Stmt::Import(..))) && !ast.has_functions(),
        }
    }
}

/// The functions that a text defines: name and number of parameters, and their bytes with their doc comments.
fn definitions(text: &str) -> Vec<((String, usize), Range<usize>)> {
    let pieces = Lexed::new(text).pieces;
    let shown = |piece: &Piece| &text[piece.range.clone()];
    let (mut found, mut depth, mut begun) = (Vec::new(), 0, None);
    for (index, piece) in pieces.iter().enumerate() {
        depth += piece.nesting();
        if depth == 0 && piece.token == Token::Fn {
            begun = Some(index);
        }
        if depth == 0
            && piece.token == Token::RightBrace
            && let Some(start) = begun.take()
        {
            let leads = |piece: &&Piece| matches!(piece.token, Token::Private | Token::Comment(_));
            let lead = pieces[..start].iter().rev().take_while(leads).last();
            let header = pieces[start + 1..index].iter();
            let header: Vec<&Piece> = header.take_while(|piece| piece.token != Token::LeftBrace).collect();
            let open = header.iter().position(|piece| piece.token == Token::LeftParen);
            let (name, params) = header.split_at(open.unwrap_or_default());
            let name = name.iter().map(|piece| shown(piece)).collect();
            let params = params
                .iter()
                .filter(|piece| matches!(piece.token, Token::Identifier(_)));
            let from = lead.unwrap_or(&pieces[start]).range.start;
            found.push(((name, params.count()), from..piece.range.end));
        }
    }
    found
}

/// Terminates the text so that another one can follow.
fn terminated(text: &str) -> String {
    let lexed = Lexed::new(text);
    let last = lexed.code().next_back();
    let is_function = |last: &Piece| {
        definitions(text)
            .last()
            .is_some_and(|(_, range)| range.end == last.range.end)
    };
    match last {
        Some(last) if last.token == Token::SemiColon || is_function(last) => text.to_owned(),
        Some(_) if lexed.end == Inside::LineComment => format!("{text}\n;"),
        Some(_) => format!("{text};"),
        None => text.to_owned(),
    }
}

/// Puts imports first. A script may define a function only once, so definitions that a later input replaces are left
/// out.
fn saved_script(inputs: &[Input]) -> String {
    let (imports, others): (Vec<&Input>, Vec<&Input>) = inputs.iter().partition(|input| input.is_only_imports);
    let (mut later, mut texts) = (Vec::new(), Vec::new());
    for input in imports.iter().chain(&others).rev() {
        let mut text = input.text.clone();
        for (function, range) in definitions(&input.text).into_iter().rev() {
            if later.contains(&function) {
                text.replace_range(range, "")
            } else {
                later.push(function)
            }
        }
        match text.trim() {
            "" => {}
            last if texts.is_empty() => texts.push(format!("{last}\n")),
            text => texts.push(format!("{}\n", terminated(text))),
        }
    }
    let head = if texts.is_empty() { "" } else { "\n" };
    let texts: String = texts.into_iter().rev().collect();
    format!("//! Saved from a REPL session.\n{head}{texts}")
}

#[cfg(test)]
mod session_tests {
    use super::*;
    use crate::run::Run;
    use crate::script::Settings;
    use crate::task::Tasks;

    /// A session with everything that it needs.
    struct Fixture {
        session: Session,
        host: Arc<Host>,
        folder: tempfile::TempDir,
        _runtime: tokio::runtime::Runtime,
    }

    fn fixture() -> Fixture {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(Host::new(
            Tasks::new(runtime.handle().clone()),
            Arc::new(Run::ephemeral("repl")),
            Default::default(),
            Default::default(),
            Settings {
                max_memory: Some(u64::MAX),
                ..Settings::default()
            },
        ));
        Fixture {
            session: Session::new(&host, folder.path()),
            host,
            folder,
            _runtime: runtime,
        }
    }

    impl Fixture {
        #[track_caller]
        fn shows(&mut self, input: &str, expected: &str) {
            match self.session.run(input) {
                Ok(shown) => assert_eq!(shown.map_or_else(String::new, |line| line.text), expected, "{input}"),
                Err(diagnostic) => panic!("{input}\n{}", diagnostic.render(false)),
            }
        }

        #[track_caller]
        fn fails(&mut self, input: &str) -> String {
            self.session.run(input).unwrap_err().render(false)
        }
    }

    #[test]
    fn variables_functions_and_constants_survive_their_input() {
        let mut repl = fixture();
        repl.shows("let x = 40;", "");
        repl.shows("const A = 1; fn plus(n) { n + global::A }", "");
        repl.shows("plus(x)", "41");
        repl.shows("const B = 2; fn both(n) { plus(n) + global::B } both(x)", "43");
        repl.shows("fn plus(n) { n }", "");
        repl.shows("both(x)", "42");
        repl.shows("let x = 1; x", "1");
        repl.shows("let f = |n| both(n) + A; f.call(0)", "3");
    }

    #[test]
    fn imports_survive_their_input() {
        let mut repl = fixture();
        std::fs::write(
            repl.folder.path().join("mine.rhai"),
            "/// Doubles.\nfn twice(n) { 2 * n }\nconst OWN = 7;\nfn own() { global::OWN }",
        )
        .unwrap();
        repl.shows("const OWN = 8; fn here() { global::OWN }", "");
        repl.shows("import \"mine\" as mine", "");
        repl.shows("mine::twice(2)", "4");
        repl.shows("[mine::own(), here()]", "[7, 8]");
        repl.shows("fn f(n) { mine::twice(n) } f(3)", "6");
        repl.shows("import \"mine\" as other; const C = other::twice(1); C", "2");
        assert!(repl.session.help("mine::twice").unwrap().contains("Doubles."));
    }

    #[test]
    fn a_failed_input_leaves_nothing_that_cannot_be_saved() {
        let mut repl = fixture();
        repl.shows("let list = [1];", "");
        repl.fails("let y = 2; list.push(y); throw \"no\"");
        repl.shows("list", "[1, 2]");
        assert!(repl.fails("y").contains("unknown variable `y`"));
        assert!(repl.fails("list.push(3); unknown_name").contains("unknown_name"));
        repl.shows("list.len()", "2");
        let file = repl.folder.path().join("saved.rhai");
        repl.session.save(&file, false).unwrap();
        let saved = std::fs::read_to_string(&file).unwrap();
        assert!(saved.contains("let list = [1];") && !saved.contains("throw"), "{saved}");
        let mut second = fixture();
        second.session.load(&file).unwrap();
        second.shows("list", "[1]");
    }

    #[test]
    fn a_file_is_replaced_only_on_request() {
        let mut repl = fixture();
        repl.shows("1", "1");
        let file = repl.folder.path().join("saved.rhai");
        std::fs::write(&file, "mine").unwrap();
        let fault = repl.session.save(&file, false).unwrap_err();
        assert!(fault.hint.unwrap().contains(":save!"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        repl.session.save(&file, true).unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().ends_with("\n1\n"));
    }

    #[test]
    fn errors_quote_their_input() {
        let mut repl = fixture();
        repl.shows("let x = 1;", "");
        repl.shows("fn fails(n) {\n  n.missing\n}", "");
        let shown = repl.fails("\n\nfails(#{})");
        assert!(shown.contains("input 2:2:"), "{shown}");
        assert!(shown.contains("input 3:3:1"), "{shown}");
    }

    #[test]
    fn an_interruption_ends_only_the_running_input() {
        let mut repl = fixture();
        repl.shows("let x = 1;", "");
        let tasks = repl.host.tasks.clone();
        let stop = std::thread::spawn(move || tasks.interrupt());
        repl.fails("sleep(100); x = 2;");
        stop.join().unwrap();
        repl.host.tasks.renew();
        repl.shows("x", "1");
    }

    #[test]
    fn a_reset_forgets_everything() {
        let mut repl = fixture();
        repl.shows("let x = 1; fn f() { 1 }", "");
        repl.session.reset();
        repl.fails("x");
        repl.fails("f()");
        assert!(repl.session.variables().is_empty());
    }

    #[test]
    fn variables_are_listed_with_type_and_value() {
        let mut repl = fixture();
        repl.shows("let a = 1; const M = #{ verdict: \"ok\" }; let a = 2.5;", "");
        let listed: Vec<_> = repl
            .session
            .variables()
            .into_iter()
            .map(|v| (v.name, v.kind, v.constant, v.value))
            .collect();
        let row = |name: &str, kind: &str, constant, value: &str| {
            (name.to_owned(), kind.to_owned(), constant, value.to_owned())
        };
        assert_eq!(
            listed,
            [
                row("a", "float", false, "2.5"),
                row("M", "map", true, "#{ verdict: \"ok\" }")
            ]
        );
    }
}

#[cfg(test)]
mod save_tests {
    use super::*;

    fn saved(inputs: &[&str]) -> String {
        let mut engine = Engine::new();
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        let inputs = inputs
            .iter()
            .map(|text| Input::new(text, &engine.compile(text).unwrap()));
        saved_script(&inputs.collect::<Vec<_>>())
    }

    #[test]
    fn a_session_becomes_a_script() {
        let script = saved(&[
            "let x = 5",
            "/** Doubles. */\n// With care.\nfn twice(n) { let each = |x| x + x; each.call(n) }",
            "import \"std/search\" as search",
            "x // look",
            "#{ a: 1 }",
            "fn twice(n) { 2 * n }",
            "if x > 1 { x += 1 }",
            "twice(x)",
        ]);
        assert_eq!(
            script,
            "//! Saved from a REPL session.\n\nimport \"std/search\" as search;\nlet x = 5;\nx // look\n;\n#{ a: 1 };\n\
             fn twice(n) { 2 * n }\nif x > 1 { x += 1 };\ntwice(x)\n"
        );
        let without_import = script.replace("import \"std/search\" as search;\n", "");
        let mut engine = Engine::new();
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        assert_eq!(engine.eval::<i64>(&without_import).unwrap(), 12);
    }

    #[test]
    fn a_function_that_is_defined_again_is_saved_once() {
        let script = saved(&[
            "const A = 1;\n/// Adds.\nprivate fn plus(n) { if n > 1 { n } else { n + 1 } }\nlet x = plus(1);",
            "fn plus(a, b) { a + b } fn twice(n) { 2 * n }",
            "fn plus(n) { n }",
            "fn twice(n) { n + n }\nplus(x, 1)",
        ]);
        assert_eq!(
            script,
            "//! Saved from a REPL session.\n\nconst A = 1;\n\nlet x = plus(1);\nfn plus(a, b) { a + b }\n\
             fn plus(n) { n }\nfn twice(n) { n + n }\nplus(x, 1)\n"
        );
        assert_eq!(Engine::new().eval::<i64>(&script).unwrap(), 2);
    }

    #[test]
    fn an_empty_session_is_an_empty_script() {
        assert_eq!(saved(&[]), "//! Saved from a REPL session.\n");
    }
}
