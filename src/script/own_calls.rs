//! Compiles a script or a module so that its calls of its own functions run these.
//!
//! Rhai 1.27 looks a function up by its name and number of parameters, in the files of all calls under way, and caches
//! what it finds across calls into modules. A module's `helper(1)` would run the script's `helper(a)` if that was called
//! before, and a script's closure the module's that calls it. So each own function that a file calls by its bare name
//! gets a second name, which no other file has, and these calls use it. Calls like methods and `Fn("name")` keep the
//! name, as their function is known only at run time.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rhai::{AST, ASTNode, Engine, Expr, FnAccess, ParseError, Position, Stmt, Token};

use super::source::{Source, sha256};

/// Separates a function's name from the hash of its file's key. Rhai allows it in names, but hardly a keyboard has it.
const MARK: char = '\u{203f}';

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
    let declared: BTreeSet<_> = plain
        .iter_functions()
        .filter(|function| function.this_type.is_none())
        .map(|function| (function.name, function.params.len()))
        .collect();
    let mut called = BTreeSet::new();
    let mut calls = BTreeSet::new();
    plain.walk(&mut |path| {
        if let Some(ASTNode::Expr(Expr::FnCall(call, at)) | ASTNode::Stmt(Stmt::FnCall(call, at))) = path.last()
            && call.namespace.is_empty()
            && declared.contains(&(&*call.name, call.args.len()))
        {
            called.insert((call.name.to_string(), call.args.len()));
            calls.insert(*at);
        }
        true
    });
    let ending = format!("{MARK}{}", &sha256(source.key.as_bytes())[..16]);
    CALLS.set(Some((ending.clone(), calls)));
    let compiled = engine.compile(&*source.text);
    CALLS.set(None);
    let ast = compiled?;
    let mut functions = (**ast.shared_lib()).clone();
    for function in ast.iter_fn_def() {
        if called.contains(&(function.name.to_string(), function.params.len())) {
            let mut second = (**function).clone();
            second.name = format!("{}{ending}", function.name).into();
            second.access = FnAccess::Private;
            functions.set_script_fn(second);
        }
    }
    Ok(AST::new(ast.statements().iter().cloned(), functions))
}

/// The name that a function has in its file.
pub(super) fn written(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}
