//! Collects what a file defines and uses.

use std::collections::BTreeSet;

use rhai::{AST, ASTNode, Expr, FnAccess, FnCallExpr, Position, Stmt};

use crate::script::signature::Signature;

#[derive(Default)]
pub(super) struct Outline {
    pub(super) functions: Vec<Defined>,
    pub(super) imports: Vec<Import>,
    pub(super) calls: Vec<Call>,
    /// Keys of map literals and assigned properties. They may hold closures that are called like methods.
    pub(super) keys: BTreeSet<String>,
    pub(super) params: Option<Parameters>,
    /// Reads `p.x`: variable, property and position.
    pub(super) reads: Vec<(String, String, Position)>,
}

pub(super) struct Parameters {
    /// The variable that holds their values.
    pub(super) variable: String,
    /// Their names; `None` if they are not a literal, as in `params(engines::parameters() + #{ … })`.
    pub(super) names: Option<BTreeSet<String>>,
}

pub(super) struct Defined {
    pub(super) signature: Signature,
    pub(super) private: bool,
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
}

impl Outline {
    /// Collects from a parsed file.
    pub(super) fn from_ast(ast: &AST) -> Self {
        let mut outline = Self::default();
        for function in ast.iter_functions() {
            outline.functions.push(Defined {
                signature: Signature::from_function(&function),
                private: function.access == FnAccess::Private,
            });
        }
        ast.walk(&mut |path: &[ASTNode]| {
            match path.last() {
                Some(ASTNode::Stmt(stmt)) => outline.stmt(stmt),
                Some(ASTNode::Expr(expr)) => outline.expr(expr),
                _ => {}
            }
            true
        });
        outline
    }

    fn stmt(&mut self, stmt: &Stmt) {
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
            Stmt::FnCall(call, at) => self.call(call, false, *at),
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

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::FnCall(call, at) => self.call(call, false, *at),
            Expr::MethodCall(call, at) => self.call(call, true, *at),
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

    fn call(&mut self, call: &FnCallExpr, method: bool, at: Position) {
        if call.op_token.is_some() {
            return;
        }
        self.calls.push(Call {
            namespace: call.namespace.to_string(),
            name: call.name.to_string(),
            args: call.args.len(),
            method,
            at,
        });
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
