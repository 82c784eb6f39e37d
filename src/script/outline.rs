//! Definitions, imports and uses of a file, from its syntax tree. Rhai resolves functions at run time, so that this is
//! all that is known of a script that does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rhai::{AST, ASTNode, Expr, FnCallExpr, Position, Stmt, StmtBlock};

use super::own_calls;
use super::signature::{Signature, misspelt_axis};
use crate::fault::{Fault, Kind};

/// Definitions, imports and uses of a file.
#[derive(Default)]
pub(super) struct Outline {
    pub(super) functions: Vec<Signature>,
    /// Those that can be called like methods, by name and number of parameters.
    pub(super) methods: BTreeSet<(String, usize)>,
    pub(super) imports: Vec<Import>,
    pub(super) calls: Vec<Call>,
    /// Keys of map literals and assigned properties. They may hold closures that are called like methods.
    pub(super) keys: BTreeSet<String>,
    pub(super) params: Option<Parameters>,
    /// Reads `p.x`: variable, property and position.
    pub(super) reads: Vec<(String, String, Position)>,
    /// Values of `catch` blocks, and the ends of these blocks.
    pub(super) lost: Vec<(Position, Position)>,
    /// Mistakes that are visible in a call alone.
    pub(super) problems: Vec<(Fault, Position)>,
}

pub(super) struct Parameters {
    /// The variable that holds their values.
    pub(super) variable: String,
    /// Their names; `None` if they are not a literal, as in `params(engines::parameters() + #{ … })`.
    pub(super) names: Option<BTreeSet<String>>,
}

pub(super) struct Import {
    pub(super) path: String,
    pub(super) alias: String,
    pub(super) at: Position,
}

pub(super) struct Call {
    /// `docker`, an import's alias, or empty.
    pub(super) namespace: String,
    pub(super) name: String,
    /// Number of arguments, without a method's receiver.
    pub(super) args: usize,
    pub(super) method: bool,
    pub(super) at: Position,
    /// Its first argument, a variable, if nothing takes what the call returns.
    pub(super) dropped: Option<String>,
}

impl Call {
    /// `steps::probe`.
    pub(super) fn path(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}::{}", self.name),
        }
    }
}

impl Outline {
    /// Collects from a parsed file.
    pub(super) fn from_ast(ast: &AST) -> Self {
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

    /// Whether the file is meant to export these functions: it defines at least half of them.
    pub(super) fn is_meant(&self, exports: &[(&str, &[&str])]) -> bool {
        let is_defined = |name: &str| self.functions.iter().any(|one| one.name == name);
        let defined = exports.iter().filter(|(name, _)| is_defined(name));
        defined.count() * 2 >= exports.len()
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
