//! Compiles a script or a module so that its calls of its own functions run these, and nothing else does by accident.
//!
//! Rhai 1.27 looks a function up by its name and number of parameters, in the files of all calls under way, and caches
//! what it finds across calls into modules. A module's `helper(1)` would run the script's `helper(a)` if that was called
//! before, and a script's closure the module's that calls it; `engine.probe(point, options)` in a closure would run the
//! `probe(search, point)` of that module. So each own function gets a second name, which no other file has, and the
//! file's calls by its bare name use it; under its written name only importers find it. A function stays visible to all
//! files if it uses `this`, or if the file takes it as a value or by `Fn("name")`, as such calls are known only at run
//! time.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rhai::{
    AST, ASTNode, Engine, Expr, FnAccess, FnCallExpr, FuncRegistration, Module, ParseError, Position, RhaiFunc, Stmt,
    Token,
};

use super::source::Source;
use crate::file::sha256;

/// Separates a function's name from the hash of its file's key. Rhai allows it in names, but hardly a keyboard has it.
const MARK: char = '\u{203f}';

/// The beginning of the names that Rhai gives to closures.
pub(super) const CLOSURE: &str = "anon$";

thread_local! {
    /// The ending of names in the file that is compiled, and where it calls its own functions.
    static CALLS: RefCell<Option<(String, BTreeSet<Position>)>> = const { RefCell::new(None) };
}

/// Prepares an engine for [`compile`].
pub(super) fn register(engine: &mut Engine) {
    #[expect(deprecated, reason = "not deprecated, says its documentation, but volatile")]
    engine.on_parse_token(|token, at, _| match token {
        Token::Identifier(name) => CALLS.with_borrow(|calls| match calls {
            Some((ending, calls)) if calls.contains(&at) => {
                Token::Identifier(Box::new(format!("{name}{ending}").into()))
            }
            _ => Token::Identifier(name),
        }),
        token => token,
    });
}

/// Compiles a text. The engine must be [registered](register).
pub(super) fn compile(engine: &Engine, source: &Source) -> Result<AST, ParseError> {
    let plain = engine.compile(&*source.text)?;
    let declared = declared(&plain);
    let mut calls = BTreeSet::new();
    plain.walk(&mut |path| {
        if let Some((call, at)) = call_at(path)
            && declared.contains(&(&*call.name, call.args.len()))
        {
            calls.insert(at);
        }
        true
    });
    CALLS.set(Some((ending(&source.key), calls)));
    let compiled = engine.compile(&*source.text);
    CALLS.set(None);
    let ast = compiled?;
    let visible = visible(&plain);
    let mut functions = Module::new();
    for function in ast.iter_fn_def() {
        let own = (&*function.name, function.params.len());
        let is_own = function.this_type.is_none() && declared.contains(&own);
        if is_own {
            let mut second = (**function).clone();
            second.name = second_name(own.0, &source.key).into();
            second.access = FnAccess::Private;
            functions.set_script_fn(second);
        }
        if is_own && !visible.contains(&own) {
            // Importers read the name in the definition; calls look for this one, which none can have.
            let hidden = FuncRegistration::new(format!("{}/{}", own.0, own.1));
            let function = RhaiFunc::Script {
                fn_def: function.clone(),
                env: None,
            };
            functions.set_fn_raw_with_options(hidden, [], function);
        } else {
            functions.set_script_fn(function.clone());
        }
    }
    Ok(AST::new(ast.statements().iter().cloned(), functions))
}

/// Functions by name and number of parameters, without closures and those for one type of `this`.
type Functions<'a> = BTreeSet<(&'a str, usize)>;

fn declared(ast: &AST) -> Functions<'_> {
    ast.iter_functions()
        .filter(|function| function.this_type.is_none() && !function.name.starts_with(CLOSURE))
        .map(|function| (function.name, function.params.len()))
        .collect()
}

/// The functions of a parsed file that all files find by their names: those that use `this`, and those that the file
/// takes by name at run time.
pub(super) fn visible(ast: &AST) -> Functions<'_> {
    let mut this = BTreeSet::new();
    let mut named = BTreeSet::new();
    let mut any = false;
    ast.walk(&mut |path| {
        match path.last() {
            Some(ASTNode::Expr(Expr::ThisPtr(at))) => {
                this.insert(*at);
            }
            // A variable would have an index.
            Some(ASTNode::Expr(Expr::Variable(name, None, _))) if name.0.is_none() && name.2.is_empty() => {
                named.insert(name.1.to_string());
            }
            _ => match call_at(path).map(|(call, _)| (&*call.name, call.args.first())) {
                Some(("Fn" | "is_def_fn", Some(Expr::StringConstant(name, _)))) => {
                    named.insert(name.to_string());
                }
                Some(("Fn" | "is_def_fn", _)) => any = true,
                _ => {}
            },
        }
        true
    });
    let mut functions = declared(ast);
    if !any {
        functions.retain(|(name, params)| {
            let uses_this = ast.iter_fn_def().any(|function| {
                let body = function.body.start_position()..=function.body.end_position();
                (&*function.name, function.params.len()) == (*name, *params) && this.range(body).next().is_some()
            });
            uses_this || named.contains(*name)
        });
    }
    functions
}

/// A call by a bare name, at the end of a path.
fn call_at<'a>(path: &[ASTNode<'a>]) -> Option<(&'a FnCallExpr, Position)> {
    match path.last() {
        Some(ASTNode::Expr(Expr::FnCall(call, at)) | ASTNode::Stmt(Stmt::FnCall(call, at))) => {
            call.namespace.is_empty().then_some((call, *at))
        }
        _ => None,
    }
}

/// The name under which the host calls a function of the file with this key, whatever the other files call theirs.
pub(super) fn second_name(name: &str, key: &str) -> String {
    format!("{name}{}", ending(key))
}

fn ending(key: &str) -> String {
    format!("{MARK}{}", &sha256(key)[..16])
}

/// The name that a function has in its file.
pub(super) fn written(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}
