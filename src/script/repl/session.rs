//! What a REPL remembers: variables, functions, imports, constants, and the inputs that succeeded.
//!
//! An input runs as the next lines of one long script would. The interpreter itself forgets functions, imports and
//! constants between evaluations, so that each input's are registered with it when the input's part that makes them is done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhai::{AST, Dynamic, Engine, EvalAltResult, Map, Module, Scope};

use super::mask::{Class, Mask};
use super::pieces::{Piece, PieceKind, is_word, pieces};
use super::pretty::{brief, pretty};
use super::save;
use super::vocabulary::{Variable, Vocabulary};
use crate::fault::{Fault, Kind, Result};
use crate::script::reference::{Found, Reference, type_word};
use crate::script::{Diagnostic, Host, Main, Source, diagnose, guarded, interpreter, shipped};

/// The module that holds the session's constants, as long as the word `global` in whose place it is compiled. One that is called
/// `global` would hide the constants of every imported module.
const CONSTANTS: &str = "_const";

/// How much of a value a list of variables shows, in characters.
const BRIEF: usize = 60;

/// A REPL's memory. It must live on a thread that is fit for the interpreter.
pub struct Session {
    host: Arc<Host>,
    /// Imports are relative to this folder and stay below it.
    root: PathBuf,
    engine: Engine,
    scope: Scope<'static>,
    /// Inputs that succeeded, oldest first.
    succeeded: Vec<String>,
    /// How many inputs there were: each is a source of its own, for diagnostics.
    inputs: usize,
}

impl Session {
    /// A session that knows nothing yet. Imports are relative to `root` and stay below it.
    #[must_use]
    pub fn new(host: &Arc<Host>, root: &Path) -> Self {
        let mut session = Self {
            host: Arc::clone(host),
            root: root.to_owned(),
            engine: interpreter(host, root),
            scope: Scope::new(),
            succeeded: Vec::new(),
            inputs: 0,
        };
        session.publish_constants();
        session
    }

    /// Runs one input; gives its value as it is shown, unless that is `()`.
    ///
    /// What an input that fails had defined anew is gone, so that only what succeeded is saved; what it changed stays changed.
    pub fn run(&mut self, text: &str) -> Result<Option<String>, Box<Diagnostic>> {
        self.inputs += 1;
        self.run_source(&Source::new(&format!("input {}", self.inputs), text))
    }

    /// Whether an input would compile; nothing runs.
    pub fn compiles(&mut self, text: &str) -> Result<(), Box<Diagnostic>> {
        self.inputs += 1;
        let source = Source::new(&format!("input {}", self.inputs), text);
        self.host.sources.insert(source.clone());
        let compiled = self.compile(&source, text);
        compiled
            .map(drop)
            .map_err(|error| Box::new(diagnose(&self.engine, &self.host.sources, &source.key, error)))
    }

    /// Runs a file as if it were typed. Its imports are relative to its own folder, and stay below the session's.
    pub fn load(&mut self, file: &Path) -> Result<Option<String>, Box<Diagnostic>> {
        let text = crate::script::source::read(file)?;
        self.run_source(&Source::new(&file.to_string_lossy(), &text))
    }

    /// Runs the script that the session was made for.
    pub fn begin(&mut self, main: &Main) -> Result<Option<String>, Box<Diagnostic>> {
        self.run_source(&main.source)
    }

    fn run_source(&mut self, source: &Source) -> Result<Option<String>, Box<Diagnostic>> {
        self.host.sources.insert(source.clone());
        self.host.meter.reset();
        let variables = self.scope.len();
        let value = guarded(|| {
            self.evaluate(source)
                .map_err(|error| Box::new(diagnose(&self.engine, &self.host.sources, &source.key, error)))
        });
        match value {
            Ok(value) => {
                self.succeeded.push(source.text.to_string());
                Ok(pretty(&self.engine, &value))
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

    fn evaluate(&mut self, source: &Source) -> Result<Dynamic, Box<EvalAltResult>> {
        // The whole first: nothing runs of an input that does not compile.
        self.compile(source, &source.text)?;
        let pieces = pieces(&source.text);
        for piece in &pieces {
            if let PieceKind::Import { alias, .. } = &piece.kind {
                self.import(source, piece, alias)?;
            }
        }
        let is_function = |piece: &&Piece| matches!(piece.kind, PieceKind::Function { .. });
        if pieces.iter().any(|piece| is_function(&piece)) {
            let text = only(&source.text, pieces.iter().filter(is_function));
            let ast = self.compile(source, &text)?;
            self.engine.register_global_module(ast.shared_lib().clone());
        }
        let mut value = Dynamic::UNIT;
        let mut part: Vec<&Piece> = Vec::new();
        let rest = pieces
            .iter()
            .filter(|piece| matches!(piece.kind, PieceKind::Constant | PieceKind::Statement));
        for piece in rest {
            part.push(piece);
            // Functions see constants only once they are published.
            if piece.kind == PieceKind::Constant {
                value = self.evaluate_part(source, &part)?;
                part.clear();
            }
        }
        if !part.is_empty() {
            value = self.evaluate_part(source, &part)?;
        }
        Ok(value)
    }

    fn evaluate_part(&mut self, source: &Source, part: &[&Piece]) -> Result<Dynamic, Box<EvalAltResult>> {
        let text = only(&source.text, part.iter().copied());
        let ast = self.compile(source, &text)?;
        let known = self.scope.len();
        let value = self.engine.eval_ast_with_scope(&mut self.scope, &ast);
        if self.scope.len() != known {
            self.publish_constants();
        }
        value
    }

    fn compile(&self, source: &Source, text: &str) -> Result<AST, Box<EvalAltResult>> {
        let mut ast = self
            .engine
            .compile_with_scope(&self.scope, with_constants(text))
            .map_err(|error| EvalAltResult::ErrorParsing(*error.0, error.1))?;
        ast.set_source(&*source.key);
        Ok(ast)
    }

    /// Imports a module for all inputs to come.
    fn import(&mut self, source: &Source, piece: &Piece, alias: &str) -> Result<(), Box<EvalAltResult>> {
        let mut text = only(&source.text, [piece]);
        if !text.trim_end().ends_with(';') {
            text.push(';');
        }
        let ast = self.compile(source, &text)?;
        // A module's imports are its sub-modules, which is how the interpreter lets them be taken out.
        let holder = Module::eval_ast_as_new(Scope::new(), &ast, &self.engine)?;
        if let Some((_, module)) = holder.iter_sub_modules().find(|(name, _)| *name == alias) {
            self.engine.register_static_module(alias, module.clone());
        }
        Ok(())
    }

    /// Makes the constants of the session visible to functions as `global::NAME`.
    fn publish_constants(&mut self) {
        let mut constants = Module::new();
        for (name, constant, value) in self.scope.iter() {
            if constant {
                constants.set_var(name, value);
            }
        }
        self.engine.register_static_module(CONSTANTS, constants.into());
    }

    /// Writes what succeeded as a script.
    pub fn save(&self, file: &Path, replace: bool) -> Result<()> {
        let text = save::script(&self.succeeded);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(replace).create_new(!replace);
        let written = options
            .open(file)
            .and_then(|mut opened| std::io::Write::write_all(&mut opened, text.as_bytes()));
        written.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Fault::new(Kind::Io, format!("`{}` exists", file.display()))
                .hint(format!("`:save! {}` replaces it", file.display())),
            _ => Fault::io(file, &error),
        })
    }

    /// Forgets everything; what was started is the caller's to stop.
    pub fn reset(&mut self) {
        self.engine = interpreter(&self.host, &self.root);
        self.scope = Scope::new();
        self.succeeded.clear();
        self.publish_constants();
    }

    /// The variables that can be seen, oldest first.
    #[must_use]
    pub fn variables(&self) -> Vec<Variable> {
        let mut variables: Vec<Variable> = Vec::new();
        // Newest first, and by reference: a copy of what is large would be made at every prompt.
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
        let name = self.engine.map_type_name(value.type_name());
        type_word(name).unwrap_or_else(|| "()".to_owned())
    }

    /// What `:help NAME` shows, as Markdown.
    pub fn help(&self, name: &str) -> Result<String> {
        let reference = Reference::of(&self.engine);
        let found = reference.find(name)?;
        Ok(found.iter().map(Found::markdown).collect::<Vec<_>>().join("\n"))
    }

    /// The names that completion and hints know now.
    pub(super) fn vocabulary(&self) -> Vocabulary {
        let modules = shipped::modules().map(|name| format!("std/{name}")).collect();
        Vocabulary::of(&self.engine, self.variables(), modules)
    }

    /// The folder that imports are relative to.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

/// `text` with the session's constants in the place of `global::`; every position stays what it is.
fn with_constants(text: &str) -> String {
    let mask = Mask::of(text);
    let mut changed = text.to_owned();
    for (at, word) in text.match_indices("global") {
        let stands_alone = !text[..at].ends_with(is_word) && text[at + word.len()..].trim_start().starts_with("::");
        if stands_alone && mask.class(at) == Class::Code {
            changed.replace_range(at..at + word.len(), CONSTANTS);
        }
    }
    changed
}

/// `text` with everything but these pieces blanked, so that positions stay what they are.
fn only<'a>(text: &str, pieces: impl IntoIterator<Item = &'a Piece>) -> String {
    let kept: Vec<_> = pieces.into_iter().map(|piece| piece.range.clone()).collect();
    text.char_indices()
        .map(
            |(at, c)| match c == '\n' || kept.iter().any(|range| range.contains(&at)) {
                true => c,
                false => ' ',
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use crate::script::Settings;
    use crate::task::Tasks;

    /// A session and what it needs to live.
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
                Ok(shown) => assert_eq!(shown.unwrap_or_default(), expected, "{input}"),
                Err(diagnostic) => panic!("{input}\n{}", diagnostic.render(false)),
            }
        }

        #[track_caller]
        fn fails(&mut self, input: &str) -> String {
            self.session.run(input).unwrap_err().render(false)
        }
    }

    #[test]
    fn variables_functions_and_constants_outlive_their_input() {
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
    fn imports_outlive_their_input() {
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
    fn errors_quote_the_input_that_they_are_in() {
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
                row("M", "map", true, "#{ verdict: \"ok\" }"),
                row("a", "float", false, "2.5")
            ]
        );
    }
}
