//! The state of a REPL session: variables, functions, imports, constants, and the successful inputs.
//!
//! Inputs run like consecutive lines of one script. Rhai itself forgets functions, imports and constants between
//! evaluations, so each part of an input registers them with the interpreter when it is done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhai::{AST, Dynamic, Engine, EvalAltResult, Map, Module, Scope, Token};

use super::complete::{Variable, Vocabulary};
use super::pretty::{Line, brief, line, pretty};
use crate::fault::{Fault, Kind, Result};
use crate::script::lexer::{Item, ItemKind, Lexed, split_items};
use crate::script::reference::{Reference, type_name};
use crate::script::{Diagnostic, Host, Main, Source, diagnose, from_script, guarded, interpreter, shipped};

/// The module of the session's constants. It replaces `global` before compilation and has the same length, which keeps
/// positions. A module named `global` would hide the constants of imported modules.
const CONSTANTS: &str = "_const";

/// Most characters of a value in a list of variables.
const BRIEF: usize = 60;

/// A REPL session. It must stay on a thread with a large enough stack for the interpreter.
pub struct Session {
    host: Arc<Host>,
    /// Imports are relative to this folder and must stay below it.
    root: PathBuf,
    engine: Engine,
    scope: Scope<'static>,
    /// Successful inputs, oldest first.
    succeeded: Vec<String>,
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

    /// Compiles an input without running it.
    pub fn compiles(&mut self, text: &str) -> Result<(), Box<Diagnostic>> {
        self.inputs += 1;
        let source = Source::new(&format!("input {}", self.inputs), text);
        self.host.sources.insert(source.clone());
        let compiled = self.compile(&source, text);
        compiled
            .map(drop)
            .map_err(|error| Box::new(diagnose(&self.engine, &self.host.sources, &source.key, error)))
    }

    /// Runs a file as if it were typed. Its imports are relative to its own folder and must stay below the session's.
    pub fn load(&mut self, file: &Path) -> Result<Option<Line>, Box<Diagnostic>> {
        let text = crate::script::source::read(file)?;
        self.host.permits.load_file();
        self.run_source(&Source::new(&file.to_string_lossy(), &text))
    }

    /// Runs the script that the session was started with.
    pub fn run_main(&mut self, main: &Main) -> Result<Option<Line>, Box<Diagnostic>> {
        self.run_source(&main.source)
    }

    fn run_source(&mut self, source: &Source) -> Result<Option<Line>, Box<Diagnostic>> {
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

    fn evaluate(&mut self, source: &Source) -> Result<Dynamic, Box<EvalAltResult>> {
        // Compile everything first: nothing runs of an input that does not compile.
        self.compile(source, &source.text)?;
        let items = split_items(&source.text);
        for item in &items {
            if let ItemKind::Import { alias } = &item.kind {
                self.import(source, item, alias)?;
            }
        }
        let is_function = |item: &&Item| matches!(item.kind, ItemKind::Function { .. });
        if items.iter().any(|item| is_function(&item)) {
            let text = blank_except(&source.text, items.iter().filter(is_function));
            let ast = self.compile(source, &text)?;
            self.engine.register_global_module(ast.shared_lib().clone());
        }
        let mut value = Dynamic::UNIT;
        let mut part: Vec<&Item> = Vec::new();
        let rest = items
            .iter()
            .filter(|item| matches!(item.kind, ItemKind::Constant | ItemKind::Statement));
        for item in rest {
            part.push(item);
            // Functions see constants only after they are published.
            if item.kind == ItemKind::Constant {
                value = self.evaluate_part(source, &part)?;
                part.clear();
            }
        }
        if !part.is_empty() {
            value = self.evaluate_part(source, &part)?;
        }
        Ok(value)
    }

    fn evaluate_part(&mut self, source: &Source, part: &[&Item]) -> Result<Dynamic, Box<EvalAltResult>> {
        let text = blank_except(&source.text, part.iter().copied());
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

    /// Imports a module for all later inputs.
    fn import(&mut self, source: &Source, item: &Item, alias: &str) -> Result<(), Box<EvalAltResult>> {
        let mut text = blank_except(&source.text, [item]);
        if !text.trim_end().ends_with(';') {
            text.push(';');
        }
        let ast = self.compile(source, &text)?;
        // A module's imports are its sub-modules, from which they can be extracted.
        let holder = Module::eval_ast_as_new(Scope::new(), &ast, &self.engine)?;
        if let Some((_, module)) = holder.iter_sub_modules().find(|(name, _)| *name == alias) {
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

    /// Writes the successful inputs as a script.
    pub fn save(&self, file: &Path, replace: bool) -> Result<()> {
        let text = saved_script(&self.succeeded);
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

    /// Forgets everything. The caller stops what was started.
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
        let name = self.engine.map_type_name(value.type_name());
        type_name(name).unwrap_or_else(|| "()".to_owned())
    }

    /// The text of `:help NAME`, as Markdown.
    pub fn help(&self, name: &str) -> Result<String> {
        Ok(Reference::new(&self.engine).find(name)?.excerpt())
    }

    pub(super) fn vocabulary(&self) -> Vocabulary {
        let modules = shipped::modules().map(|name| format!("std/{name}")).collect();
        Vocabulary::new(&self.engine, self.variables(), modules)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
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

/// Blanks everything but these items, without changing positions.
fn blank_except<'a>(text: &str, items: impl IntoIterator<Item = &'a Item>) -> String {
    let ranges: Vec<_> = items.into_iter().map(|item| item.range.clone()).collect();
    text.char_indices()
        .map(
            |(at, c)| match c == '\n' || ranges.iter().any(|range| range.contains(&at)) {
                true => c,
                false => ' ',
            },
        )
        .collect()
}

fn saved_script(inputs: &[String]) -> String {
    let items: Vec<(ItemKind, &str)> = inputs
        .iter()
        .flat_map(|input| {
            split_items(input)
                .into_iter()
                .map(|item| (item.kind, input[item.range].trim()))
        })
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let is_function = |kind: &ItemKind| matches!(kind, ItemKind::Function { .. });
    let mut parts: Vec<String> = Vec::new();
    for (kind, text) in &items {
        if matches!(kind, ItemKind::Import { .. }) && !parts.iter().any(|part| part == text) {
            parts.push(terminated(text));
        }
    }
    parts.dedup();
    let imports = parts.len();
    for (index, (kind, text)) in items.iter().enumerate() {
        // A script may define a function only once.
        let replaced = is_function(kind) && items[index + 1..].iter().any(|(later, _)| later == kind);
        match kind {
            ItemKind::Import { .. } => {}
            _ if replaced => {}
            ItemKind::Function { .. } => parts.push((*text).to_owned()),
            _ if index + 1 == items.len() => parts.push((*text).to_owned()),
            _ => parts.push(terminated(text)),
        }
    }
    let (head, body) = parts.split_at(imports);
    let mut script = String::from("//! Saved from a REPL session.\n");
    for block in [head, body] {
        if !block.is_empty() {
            script.push('\n');
            script.push_str(&block.join("\n"));
            script.push('\n');
        }
    }
    script
}

/// Terminates a statement so that another can follow.
fn terminated(text: &str) -> String {
    let grammar = Engine::new_raw();
    let stands = |candidate: &str| grammar.compile(format!("{candidate}\n0")).is_ok();
    let candidates = [text.to_owned(), format!("{text};"), format!("{text}\n;")];
    let [as_it_is, ..] = &candidates;
    candidates
        .iter()
        // `a\n0` may parse as one expression, so a text without a terminator gets one.
        .skip(usize::from(!text.ends_with([';', '}'])))
        .find(|candidate| stands(candidate))
        .unwrap_or(as_it_is)
        .clone()
}

#[cfg(test)]
mod session_tests {
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
                row("M", "map", true, "#{ verdict: \"ok\" }"),
                row("a", "float", false, "2.5")
            ]
        );
    }
}

#[cfg(test)]
mod save_tests {
    use super::*;

    fn saved(inputs: &[&str]) -> String {
        let inputs: Vec<String> = inputs.iter().map(|input| (*input).to_owned()).collect();
        saved_script(&inputs)
    }

    #[test]
    fn a_session_becomes_a_script() {
        let script = saved(&[
            "let x = 5",
            "fn twice(n) { n + n }",
            "import \"std/search\" as search",
            "x // look",
            "#{ a: 1 }",
            "fn twice(n) { 2 * n }",
            "if x > 1 { x += 1 }",
            "import \"std/search\" as search",
            "twice(x)",
        ]);
        assert_eq!(
            script,
            "//! Saved from a REPL session.\n\nimport \"std/search\" as search;\n\nlet x = 5;\nx // look\n;\n#{ a: 1 };\n\
             fn twice(n) { 2 * n }\nif x > 1 { x += 1 }\ntwice(x)\n"
        );
        let without_import = script.replace("import \"std/search\" as search;\n", "");
        let mut engine = Engine::new();
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        assert_eq!(engine.eval::<i64>(&without_import).unwrap(), 12);
    }

    #[test]
    fn an_empty_session_is_an_empty_script() {
        assert_eq!(saved(&[]), "//! Saved from a REPL session.\n");
    }
}
