//! Checks a script without running it: it parses, its imports exist, the functions it calls exist with that number of
//! arguments, the parameters it reads are declared, axes are not misspelt, and an adapter has all exports. Also reads
//! the parts of an adapter that need no engine (rules, the form of a request). Scores a strategy or an adapter.
//!
//! Rhai resolves functions at run time, so this works on the syntax tree: an [`Outline`] collects the definitions and
//! uses in a file. Facts that are unknown until the script runs are not reported.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhai::{
    AST, ASTNode, Engine, EvalAltResult, Expr, FnCallExpr, Module, ParseErrorType, Position, Scope, Stmt, StmtBlock,
};
use serde_json::Value;

use super::adapter::{self, CLUSTER, EXPORTS, Exports, missing_exports};
use super::diagnose::{Diagnostic, Place, byte_at, diagnose};
use super::interpreter::{CANNOT_LIST, run_source};
use super::main_script::Main;
use super::params::{Declared, check_values, in_script, merge_values, search_options};
use super::resolver::locate;
use super::signature::{Signature, forms, is_name, misspelt_axis, natives};
use super::source::Source;
use super::suggest::{guessed, nearest, suggest};
use super::{Caught, Host, describe_params, interpreter, on_thread, own_calls, resolver, shipped};
use crate::boundary::Cause;
use crate::engine::check_adapter;
use crate::fault::{Fault, Kind, Result};
use crate::fmt::Count;

/// All errors in a script: a path, a shipped script by name, or a shipped module `std/…`. Also checks parameters in the
/// host's settings.
pub fn check(host: &Arc<Host>, script: &Path) -> Vec<Diagnostic> {
    match open(script) {
        Ok(main) => check_main(host, &main),
        Err(fault) => vec![fault.into()],
    }
}

/// All errors in an open script.
pub fn check_main(host: &Arc<Host>, main: &Main) -> Vec<Diagnostic> {
    on_thread(|| Ok(find_all(host, main))).unwrap_or_else(|diagnostic| vec![*diagnostic])
}

/// Warnings about a script without errors: calls of deprecated functions and dropped searches, each with its location,
/// and causes in an adapter's failure rules that are almost known ones. Such a cause may be the adapter's own, so it is
/// no error.
pub fn warnings(host: &Arc<Host>, script: &Path) -> Vec<String> {
    let found = on_thread(|| {
        let main = open(script)?;
        let mut checker = Checker::new(host, &main);
        checker.file(&main.source);
        let mut warnings = checker.warnings;
        if matches!(subject(host, &main, None), Ok(Subject::Adapter)) {
            warnings.extend(misspelt_causes(host, &main)?);
        }
        Ok(warnings)
    });
    found.unwrap_or_default()
}

fn misspelt_causes(host: &Arc<Host>, adapter: &Main) -> Result<Vec<String>> {
    let rules = adapter::from_source(host, &adapter.source.key, &adapter.source)?.failures()?;
    let misspelt = rules.iter().enumerate().filter_map(|(index, rule)| match &rule.cause {
        Some(Cause::Other(name)) => Some((index, name, nearest(name, Cause::ALL.iter().map(Cause::name))?)),
        _ => None,
    });
    let warning = |(index, name, near)| {
        format!("`failures()[{index}]` has the cause `{name}`, which is none of the known ones: did you mean `{near}`?")
    };
    Ok(misspelt.map(warning).collect())
}

fn find_all(host: &Arc<Host>, main: &Main) -> Vec<Diagnostic> {
    let mut checker = Checker::new(host, main);
    checker.file(&main.source);
    let mut found = checker.found;
    if found.is_empty() && !host.settings.set.is_empty() {
        match describe_params(host, main) {
            Ok(declared) => {
                let home = host.settings.script.parent().unwrap_or(Path::new(""));
                let values = merge_values(&declared, &host.settings.set);
                let checked = values.and_then(|values| check_values(&declared, &values, home).map(|()| values));
                found.extend(
                    checked
                        .map_err(|fault| Box::new(Diagnostic::from(fault)))
                        .and_then(|values| check_search(host, main, &declared, &values))
                        .err()
                        .map(|found| *found),
                );
            }
            // Parameters that only a running script declares are unknown here.
            Err(diagnostic) if diagnostic.fault.message.starts_with(CANNOT_LIST) => {}
            Err(diagnostic) => found.push(*diagnostic),
        }
    }
    found
}

/// Checks the options of a search of the standard library, which knows the valid ones.
fn check_search(
    host: &Arc<Host>,
    main: &Main,
    declared: &[Declared],
    values: &serde_json::Map<String, Value>,
) -> Result<(), Box<Diagnostic>> {
    let Some(options) = values.get("search").filter(|_| !search_options(declared).is_empty()) else {
        return Ok(());
    };
    let text = format!(
        "import \"std/search/options\" as options; options::check({});",
        in_script(options)
    );
    let source = Source::new("parameter search", &text);
    let checked = run_source(host, &interpreter(host, &main.root), &source, |_| Ok(()));
    // The position in that generated text means nothing to the user.
    checked.map(drop).map_err(|found| Box::new(found.fault.into()))
}

fn open(script: &Path) -> Result<Main> {
    let name = script.to_string_lossy();
    let module = name.strip_prefix("std/").filter(|_| !script.exists());
    match module.and_then(|module| shipped::module(module.trim_end_matches(".rhai"))) {
        Some(text) => Ok(Main {
            source: Source::new(&format!("{}.rhai", name.trim_end_matches(".rhai")), &text),
            root: ".".into(),
            shipped: true,
        }),
        None => Main::open(script),
    }
}

struct Checker<'a> {
    engine: Engine,
    host: &'a Arc<Host>,
    main: &'a Main,
    natives: Vec<Signature>,
    /// Exports of the files checked so far.
    files: BTreeMap<String, Vec<Signature>>,
    importing: Vec<String>,
    found: Vec<Diagnostic>,
    /// Warnings about calls.
    warnings: Vec<String>,
}

impl<'a> Checker<'a> {
    fn new(host: &'a Arc<Host>, main: &'a Main) -> Self {
        host.sources.insert(main.source.clone());
        let engine = interpreter(host, &main.root);
        Self {
            natives: natives(&engine),
            engine,
            host,
            main,
            files: BTreeMap::new(),
            importing: Vec::new(),
            found: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Checks a file and its imports. Returns its exports, if it parses.
    fn file(&mut self, source: &Source) -> Option<Vec<Signature>> {
        if let Some(known) = self.files.get(&*source.key) {
            return Some(known.clone());
        }
        let ast = self.compile(source)?;
        let mut outline = Outline::from_ast(&ast);
        if let Some(params) = &mut outline.params
            && source.key == self.main.source.key
        {
            let declared = || describe_params(self.host, self.main).ok();
            let names = |declared: Vec<_>| declared.into_iter().map(|one: Declared| one.name).collect();
            params.names = params.names.take().or_else(|| declared().map(names));
        }
        self.importing.push(source.key.to_string());
        let mut modules = BTreeMap::new();
        for import in &outline.imports {
            let exports = self.import(source, &import.path, import.at);
            modules.insert(import.alias.clone(), exports);
        }
        self.importing.pop();
        for (at, end) in std::mem::take(&mut outline.lost) {
            if !is_value(&source.text, end) {
                continue;
            }
            let fault = Fault::new(Kind::Compile, "the value of a `catch` block is lost: the block gives `()`")
                .hint("write `return` before it, end it with `;`, or call `attempt(|| …)`, which returns `#{ ok, value, error }`");
            self.report(source, fault, at);
        }
        for (fault, at) in find_errors(&outline, &self.natives, &modules) {
            self.report(source, fault, at);
        }
        for call in &outline.calls {
            let module = modules.get(&call.namespace).and_then(Option::as_ref);
            let called = module.and_then(|module| module.iter().find(|one| one.name == call.name));
            let own = outline
                .functions
                .iter()
                .find(|one| call.namespace.is_empty() && one.name == call.name);
            if let Some(variable) = &call.dropped
                && let Some(("search", _)) = called.or(own).and_then(Signature::first_param)
            {
                let place = Place::new(source.clone(), call.at);
                let warning = format!(
                    "{place}: the search that `{0}` returns is dropped: write `{variable} = {0}({variable}, …)`",
                    call.path()
                );
                self.warnings.push(warning);
            }
            if let Some(remedy) = called.and_then(|called| called.deprecated.as_ref()) {
                let place = Place::new(source.clone(), call.at);
                let warning = format!("{place}: `{}::{}` is deprecated: {remedy}", call.namespace, call.name);
                self.warnings.push(warning);
            }
        }
        if is_meant(&outline, EXPORTS) {
            self.adapter(source, &ast);
        } else if is_meant(&outline, CLUSTER) {
            for problem in missing_exports(&ast, CLUSTER) {
                let fault = Fault::new(Kind::Compile, format!("this cluster {problem}"));
                self.report(source, fault, Position::NONE);
            }
        }
        let exports: Vec<_> = outline.functions.into_iter().filter(|one| !one.private).collect();
        self.files.insert(source.key.to_string(), exports.clone());
        Some(exports)
    }

    /// Compiles a file. Reports an unknown variable, and then continues to find further errors.
    fn compile(&mut self, source: &Source) -> Option<AST> {
        for strict in [true, false] {
            self.engine.set_strict_variables(strict);
            let compiled = resolver::parse(&self.engine, source);
            self.engine.set_strict_variables(true);
            let error = match compiled {
                Ok(ast) => return Some(ast),
                Err(error) => error,
            };
            let is_variable = matches!(
                &*error,
                EvalAltResult::ErrorParsing(ParseErrorType::VariableUndefined(_), _)
            );
            let diagnostic = diagnose(&self.engine, &self.host.sources, &source.key, error);
            self.found.push(diagnostic);
            if !is_variable {
                break;
            }
        }
        None
    }

    /// Checks an adapter: its functions and, if nothing else is wrong with the main file, what they return.
    fn adapter(&mut self, source: &Source, ast: &AST) {
        let missing = missing_exports(ast, EXPORTS);
        for problem in &missing {
            let fault = Fault::new(Kind::Compile, format!("this adapter {problem}"));
            self.report(source, fault, Position::NONE);
        }
        if !self.found.is_empty() || source.key != self.main.source.key {
            return;
        }
        match adapter::from_source(self.host, &source.key, source) {
            Ok(adapter) => {
                for (function, fault) in check_adapter(adapter.as_ref()) {
                    let place = Place::of_function(source.clone(), function);
                    self.found.push(Diagnostic::at(fault, Some(place)));
                }
            }
            Err(fault) => self.report(source, fault, Position::NONE),
        }
    }

    /// The exports of an import; `None`, after reporting an error, if it cannot be read.
    fn import(&mut self, importer: &Source, path: &str, at: Position) -> Option<Vec<Signature>> {
        let opened = locate(&self.main.root, Some(&importer.key), path).and_then(|found| {
            match self.importing.iter().position(|key| *key == found.key) {
                Some(start) => Err(resolver::cycle(&self.importing[start..], &found.key)),
                None => Ok(Source::new(&found.key, &found.read()?)),
            }
        });
        match opened {
            Ok(source) => {
                self.host.sources.insert(source.clone());
                self.file(&source)
            }
            Err(fault) => {
                self.report(importer, fault, at);
                None
            }
        }
    }

    fn report(&mut self, source: &Source, fault: Fault, at: Position) {
        self.found
            .push(Diagnostic::at(fault, Some(Place::new(source.clone(), at))));
    }
}

/// Whether a file is meant to be an adapter or a cluster: it defines at least half of the required exports.
fn is_meant(outline: &Outline, exports: &Exports) -> bool {
    let is_defined = |name: &str| outline.functions.iter().any(|one| one.name == name);
    let defined = exports.iter().filter(|(name, _)| is_defined(name));
    defined.count() * 2 >= exports.len()
}

/// Finds the `catch` blocks at the end of statements whose value is used that end in an expression: the places of the
/// expression and of the block's end.
fn lost_values(statements: &[Stmt], found: &mut Vec<(Position, Position)>) {
    match statements.last() {
        Some(Stmt::TryCatch(parts, _)) => {
            lost_values(parts.body.statements(), found);
            match parts.branch.statements().last() {
                Some(value @ (Stmt::Expr(_) | Stmt::FnCall(..))) => {
                    found.push((value.position(), parts.branch.end_position()));
                }
                _ => lost_values(parts.branch.statements(), found),
            }
        }
        Some(Stmt::If(parts, _)) => {
            lost_values(parts.body.statements(), found);
            lost_values(parts.branch.statements(), found);
        }
        Some(Stmt::Block(block)) => lost_values(block.statements(), found),
        _ => {}
    }
}

/// Whether the expression before the end of a block is its value: no `;` follows it.
fn is_value(text: &str, end: Position) -> bool {
    let at = end
        .line()
        .map_or(0, |line| byte_at(text, line, end.position().unwrap_or(1)));
    let before = text.get(..at).map_or("", str::trim_end);
    // The position is at the bracket or after it.
    let mut before = before.strip_suffix('}').unwrap_or(before).trim_end();
    while !before.ends_with(';') {
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        let Some(comment) = before[line..].rfind("//") else {
            return true;
        };
        before = before[..line + comment].trim_end();
    }
    false
}

/// Calls that match no function, and parameters that are read but not declared. `modules` contains the imports by
/// alias; `None` for an unreadable one.
fn find_errors(
    outline: &Outline,
    natives: &[Signature],
    modules: &BTreeMap<String, Option<Vec<Signature>>>,
) -> Vec<(Fault, Position)> {
    let mut found = outline.problems.clone();
    for call in &outline.calls {
        if let Some(fault) = check_call(call, outline, natives, modules) {
            found.push((fault, call.at));
        }
    }
    if let Some(Parameters {
        variable,
        names: Some(declared),
    }) = &outline.params
    {
        for (on, property, at) in &outline.reads {
            if on == variable && !declared.contains(property) {
                let fault = Fault::new(Kind::Compile, format!("the script declares no parameter `{property}`"));
                let otherwise = format!("add `{property}: param(default, \"meaning\")`");
                let known = declared.iter().map(String::as_str);
                found.push((suggest(fault, property, known, otherwise), *at));
            }
        }
    }
    found
}

fn check_call(
    call: &Call,
    outline: &Outline,
    natives: &[Signature],
    modules: &BTreeMap<String, Option<Vec<Signature>>>,
) -> Option<Fault> {
    // Rhai's metadata lacks these.
    let built_in = [
        "Fn",
        "call",
        "curry",
        "is_def_fn",
        "is_def_var",
        "is_shared",
        "print",
        "debug",
        "type_of",
    ];
    if !is_name(&call.name) || built_in.contains(&call.name.as_str()) {
        return None;
    }
    // It may be a closure stored in a map under this name.
    if call.method && outline.keys.contains(&call.name) {
        return None;
    }
    let is_seen = |one: &&Signature| !call.method || outline.methods.contains(&(one.name.clone(), one.params.len()));
    let own = outline.functions.iter().filter(is_seen);
    let candidates: Vec<&Signature> = if call.namespace.is_empty() {
        let visible = |one: &&Signature| one.namespace.is_empty() || one.global || call.method;
        natives.iter().filter(visible).chain(own).collect()
    } else if let Some(module) = modules.get(&call.namespace) {
        module.as_ref()?.iter().collect()
    } else {
        let inside: Vec<_> = natives.iter().filter(|one| one.namespace == call.namespace).collect();
        // A module inside a module is not checked.
        if inside.is_empty() {
            return None;
        }
        inside
    };
    let same: Vec<&Signature> = candidates.iter().copied().filter(|one| one.name == call.name).collect();
    let takes = |one: &&Signature| {
        one.params.len() == call.args + usize::from(call.method) || (call.method && one.params.len() == call.args)
    };
    if same.iter().any(takes) {
        return None;
    }
    let path = call.path();
    if same.is_empty() {
        if outline.functions.iter().any(|own| call.method && own.name == call.name) {
            let fault = Fault::new(Kind::Compile, format!("the function `{path}` of this file uses no `this`"));
            return Some(fault.hint("call it like a function, with the value first"));
        }
        let fault = Fault::new(Kind::Compile, format!("there is no function `{path}`"));
        let known = candidates.iter().map(|one| one.name.as_str());
        let otherwise = guessed(&call.name).unwrap_or("`profiler doc` lists the functions");
        return Some(suggest(fault, &call.name, known, otherwise));
    }
    let given = Count(call.args, "argument");
    let fault = Fault::new(Kind::Compile, format!("`{path}` does not take {given}"));
    Some(fault.hint(format!("it is {}", forms(&same, None))))
}

#[derive(Default)]
struct Outline {
    functions: Vec<Signature>,
    /// Those that can be called like methods, by name and number of parameters.
    methods: BTreeSet<(String, usize)>,
    imports: Vec<Import>,
    calls: Vec<Call>,
    /// Keys of map literals and assigned properties. They may hold closures that are called like methods.
    keys: BTreeSet<String>,
    params: Option<Parameters>,
    /// Reads `p.x`: variable, property and position.
    reads: Vec<(String, String, Position)>,
    /// Values of `catch` blocks, and the ends of these blocks.
    lost: Vec<(Position, Position)>,
    /// Mistakes that are visible in a call alone.
    problems: Vec<(Fault, Position)>,
}

struct Parameters {
    /// The variable that holds their values.
    variable: String,
    /// Their names; `None` if they are not a literal, as in `params(engines::parameters() + #{ … })`.
    names: Option<BTreeSet<String>>,
}

struct Import {
    path: String,
    alias: String,
    at: Position,
}

struct Call {
    /// `docker`, an import's alias, or empty.
    namespace: String,
    name: String,
    /// Number of arguments, without a method's receiver.
    args: usize,
    method: bool,
    at: Position,
    /// Its first argument, a variable, if nothing takes what the call returns.
    dropped: Option<String>,
}

impl Call {
    /// `steps::probe`.
    fn path(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}::{}", self.name),
        }
    }
}

impl Outline {
    /// Collects from a parsed file.
    fn from_ast(ast: &AST) -> Self {
        let functions = ast.iter_functions();
        let methods = own_calls::visible(ast).into_iter();
        let mut outline = Self {
            functions: functions.map(|function| Signature::from_function(&function)).collect(),
            methods: methods.map(|(name, params)| (name.to_owned(), params)).collect(),
            ..Self::default()
        };
        let mut roots = BTreeSet::new();
        ast.walk(&mut |path: &[ASTNode]| {
            if let [ASTNode::Stmt(root)] = path {
                roots.insert(root.position());
            }
            true
        });
        // The last statement of a function, or of the file, is its value.
        let bodies: BTreeSet<Position> = ast
            .iter_fn_def()
            .map(|function| function.body.start_position())
            .collect();
        let is_last = |root: &Stmt| {
            let after = (Bound::Excluded(root.position()), Bound::Unbounded);
            let (next, body) = (roots.range(after).next(), bodies.range(after).next());
            next.is_none_or(|next| body.is_some_and(|body| body <= next))
        };
        // The last root of each body, by the start of the innermost body that holds it.
        let spans: Vec<(Position, Position)> = ast
            .iter_fn_def()
            .map(|function| (function.body.start_position(), function.body.end_position()))
            .collect();
        let inside = |root: &Position| {
            let holding = spans.iter().filter(|(start, end)| start <= root && root <= end);
            holding.map(|(start, _)| *start).max()
        };
        let ends: BTreeMap<Option<Position>, Position> = roots.iter().map(|root| (inside(root), *root)).collect();
        ast.walk(&mut |path: &[ASTNode]| {
            if let [ASTNode::Stmt(root)] = path
                && ends.values().any(|end| *end == root.position())
            {
                lost_values(std::slice::from_ref(*root), &mut outline.lost);
            }
            match path.last() {
                Some(ASTNode::Stmt(stmt)) => outline.stmt(stmt, is_dropped(path, &is_last)),
                Some(ASTNode::Expr(expr)) => {
                    let statement = &path[..path.len() - 1];
                    let is_statement = matches!(statement.last(), Some(ASTNode::Stmt(Stmt::Expr(_))));
                    outline.expr(expr, is_statement && is_dropped(statement, &is_last));
                }
                _ => {}
            }
            true
        });
        outline
    }

    fn stmt(&mut self, stmt: &Stmt, is_dropped: bool) {
        match stmt {
            Stmt::Import(import, at) => {
                if let Expr::StringConstant(path, path_at) = &import.0 {
                    self.imports.push(Import {
                        path: path.to_string(),
                        alias: import.1.as_str().to_owned(),
                        at: if path_at.is_none() { *at } else { *path_at },
                    });
                }
            }
            Stmt::FnCall(call, at) => self.call(call, false, is_dropped, *at),
            Stmt::Var(var, _, _) => {
                if let Expr::FnCall(call, _) = &var.1
                    && call.name == "params"
                {
                    self.params = Some(Parameters {
                        variable: var.0.as_str().to_owned(),
                        names: call.args.first().and_then(literal_keys),
                    });
                }
            }
            _ => {}
        }
    }

    fn expr(&mut self, expr: &Expr, is_dropped: bool) {
        match expr {
            Expr::FnCall(call, at) => self.call(call, false, is_dropped, *at),
            Expr::MethodCall(call, at) => self.call(call, true, false, *at),
            Expr::Map(map, _) => self.keys.extend(map.0.iter().map(|(key, _)| key.as_str().to_owned())),
            Expr::Property(property, _) => {
                self.keys.insert(property.2.to_string());
            }
            Expr::Dot(dot, _, _) => {
                if let Expr::Variable(variable, _, _) = &dot.lhs
                    && let Some((property, at)) = first_property(&dot.rhs)
                {
                    self.reads.push((variable.1.to_string(), property, at));
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, call: &FnCallExpr, method: bool, is_dropped: bool, at: Position) {
        if call.op_token.is_some() {
            return;
        }
        for arg in &call.args {
            if let Expr::Stmt(block) = arg
                && block.is_empty()
            {
                let fault = Fault::new(Kind::Compile, "`{}` is an empty block of statements, not a map");
                self.problems
                    .push((fault.hint("an empty map is written `#{}`"), block.position()));
            }
        }
        if let (false, "boundary", Some(Expr::Map(axes, _))) = (method, call.name.as_str(), call.args.first()) {
            self.problems.extend(
                axes.0
                    .iter()
                    .filter_map(|(axis, _)| Some((misspelt_axis(&axis.name)?, axis.pos))),
            );
        }
        self.calls.push(Call {
            namespace: call.namespace.to_string(),
            name: call.name.to_string(),
            args: call.args.len(),
            method,
            at,
            dropped: match call.args.first() {
                Some(Expr::Variable(variable, _, _)) if is_dropped => Some(variable.1.to_string()),
                _ => None,
            },
        });
    }
}

/// Whether nothing takes the value of the statement at the end of this path. `is_last` is for the first one of a path.
fn is_dropped(path: &[ASTNode], is_last: &impl Fn(&Stmt) -> bool) -> bool {
    let Some((ASTNode::Stmt(stmt), parents)) = path.split_last() else {
        return false;
    };
    let ends = |block: &StmtBlock| block.statements().last().is_some_and(|last| std::ptr::eq(last, *stmt));
    match parents.last() {
        None => !is_last(stmt),
        Some(ASTNode::Stmt(Stmt::While(..) | Stmt::Do(..) | Stmt::For(..))) => true,
        Some(ASTNode::Stmt(Stmt::Block(block))) if !ends(block) => true,
        Some(ASTNode::Stmt(Stmt::If(branches, _))) if !ends(&branches.body) && !ends(&branches.branch) => true,
        Some(ASTNode::Stmt(Stmt::Block(_) | Stmt::If(..))) => is_dropped(parents, is_last),
        _ => false,
    }
}

fn literal_keys(expr: &Expr) -> Option<BTreeSet<String>> {
    let Expr::Map(map, _) = expr else { return None };
    Some(map.0.iter().map(|(key, _)| key.as_str().to_owned()).collect())
}

/// The property right after a dot.
fn first_property(rhs: &Expr) -> Option<(String, Position)> {
    match rhs {
        Expr::Property(property, at) => Some((property.2.to_string(), *at)),
        Expr::Dot(more, _, _) | Expr::Index(more, _, _) => first_property(&more.lhs),
        _ => None,
    }
}

/// The kind of script to score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// It has this function of `map, probe, options`.
    Strategy(String),
    /// It exports what an adapter must.
    Adapter,
}

/// The parameters that identify a strategy.
const STRATEGY: [&str; 3] = ["map", "probe", "options"];

/// The strategy or adapter in a script.
///
/// # Errors
///
/// `usage` if it is neither a strategy nor an adapter, or has several strategies and `wanted` is none of them.
pub fn subject(host: &Arc<Host>, main: &Main, wanted: Option<&str>) -> Result<Subject> {
    let engine = interpreter(host, &main.root);
    let ast = resolver::parse(&engine, &main.source)
        .map_err(|error| diagnose(&engine, &host.sources, &main.source.key, error).fault)?;
    let outline = Outline::from_ast(&ast);
    if wanted.is_none() && is_meant(&outline, EXPORTS) {
        return Ok(Subject::Adapter);
    }
    let mut names = strategies(&ast);
    names.retain(|name| wanted.is_none_or(|wanted| wanted == *name));
    match names.as_slice() {
        [] if wanted.is_some() => Err(Fault::usage(format!(
            "`{}` has no strategy `{}`",
            main.source.key,
            wanted.unwrap_or_default()
        ))
        .hint("a strategy is a function of `map, probe, options`")),
        [name] => Ok(Subject::Strategy((*name).to_owned())),
        [] => Err(
            Fault::usage(format!("`{}` has no strategy and is no adapter", main.source.key))
                .hint("a strategy is a function of `map, probe, options`: `profiler new strategy NAME` writes one; `profiler run` tries an experiment, `profiler fleet` a cluster"),
        ),
        several => Err(Fault::usage(format!(
            "`{}` has the strategies `{}`",
            main.source.key,
            several.join("`, `")
        ))
        .hint(format!("name one: `profiler test {}::{}`", main.source.key, several[0]))),
    }
}

/// The functions of `map, probe, options`, by name: Rhai keeps functions in hash order, which differs between builds.
fn strategies(ast: &AST) -> Vec<&str> {
    let strategies = ast.iter_functions().filter(|function| function.params == STRATEGY);
    let mut names: Vec<&str> = strategies.map(|function| function.name).collect();
    names.sort_unstable();
    names
}

/// The strategy that a script without one calls in a module beside it, as a fork does: the file of the module, and the
/// name of the function.
///
/// # Errors
///
/// `compile` if the script or a module cannot be parsed.
pub fn called_strategy(host: &Arc<Host>, main: &Main, path: &Path) -> Result<Option<(PathBuf, String)>> {
    let engine = interpreter(host, &main.root);
    let parse = |source: &Source| {
        resolver::parse(&engine, source).map_err(|error| diagnose(&engine, &host.sources, &source.key, error).fault)
    };
    let ast = parse(&main.source)?;
    if main.shipped || !strategies(&ast).is_empty() {
        return Ok(None);
    }
    let outline = Outline::from_ast(&ast);
    for import in &outline.imports {
        let module = path.with_file_name(format!("{}.rhai", import.path.trim_start_matches("./")));
        if !module.is_file() {
            continue;
        }
        let ast = parse(&Main::open(&module)?.source)?;
        let called = strategies(&ast).into_iter().find(|strategy| {
            let mut calls = outline.calls.iter();
            calls.any(|call| call.namespace == import.alias && call.name == *strategy)
        });
        if let Some(called) = called {
            return Ok(Some((module, called.to_owned())));
        }
    }
    Ok(None)
}

/// Scores a script with `std/score` and returns the resulting map. `servers` are names and addresses for an adapter to
/// drive.
pub fn score(
    host: &Arc<Host>,
    main: &Main,
    subject: &Subject,
    servers: &[(&str, &str)],
) -> Result<Value, Box<Diagnostic>> {
    on_thread(|| {
        host.sources.insert(main.source.clone());
        let mut engine = interpreter(host, &main.root);
        let call = match subject {
            Subject::Strategy(name) => {
                let module = definitions(&engine, main)
                    .map_err(|error| Box::new(diagnose(&engine, &host.sources, &main.source.key, error)))?;
                engine.register_static_module(SUBJECT, module.into());
                format!("strategy({name:?}, |map, probe, options| {SUBJECT}::{name}(map, probe, options))")
            }
            Subject::Adapter => {
                let file = Path::new(&*main.source.key)
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                let servers: Vec<String> = servers.iter().map(|(name, url)| format!("{name:?}: {url:?}")).collect();
                format!("adapter({:?}, #{{ {} }})", format!("./{file}"), servers.join(", "))
            }
        };
        let text = format!("import \"std/score\" as score;\nscore::{call}");
        run_source(host, &engine, &Source::new("profiler test", &text), |_| Ok(()))
    })
}

/// The module name of the strategy's file here.
const SUBJECT: &str = "profiler_subject";

/// The functions of a script, with the imports and constants that they use, but without the script's other statements.
fn definitions(engine: &Engine, main: &Main) -> Caught<Module> {
    let own = resolver::compile(engine, &main.source)?;
    let seen = own.statements().iter();
    let seen = seen.filter(|statement| matches!(statement, Stmt::Import(..)) || resolver::is_constant(statement));
    let ast = resolver::part_of(&main.source, seen, own.shared_lib().clone());
    Module::eval_ast_as_new(Scope::new(), &ast, engine)
}
