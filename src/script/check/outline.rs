//! What a file defines and uses.

use std::collections::BTreeSet;

use rhai::{AST, ASTNode, Expr, FnAccess, FnCallExpr, Position, Stmt};

use crate::script::signature::Signature;

/// What a file defines and uses.
#[derive(Default)]
pub(super) struct Outline {
    pub(super) functions: Vec<Defined>,
    pub(super) imports: Vec<Import>,
    pub(super) calls: Vec<Call>,
    /// Keys of map literals and assigned properties: what is called as a method may be a closure kept there.
    pub(super) keys: BTreeSet<String>,
    /// `let p = params(#{ … })`.
    pub(super) params: Option<Parameters>,
    /// `p.x`: variable, property and where.
    pub(super) reads: Vec<(String, String, Position)>,
}

/// The parameters that the file declares.
pub(super) struct Parameters {
    /// The variable that holds their values.
    pub(super) variable: String,
    /// Their names; nothing where they are not written out, as in `params(engines::parameters() + #{ … })`.
    pub(super) names: Option<BTreeSet<String>>,
}

/// A function that the file defines.
pub(super) struct Defined {
    pub(super) signature: Signature,
    pub(super) private: bool,
}

/// `import "path" as alias`.
pub(super) struct Import {
    pub(super) path: String,
    pub(super) alias: String,
    pub(super) at: Position,
}

/// A call of a function.
pub(super) struct Call {
    /// `docker`, an import's alias, or empty.
    pub(super) namespace: String,
    pub(super) name: String,
    /// Arguments, the value that a method is called on left out.
    pub(super) args: usize,
    pub(super) method: bool,
    pub(super) at: Position,
}

impl Outline {
    /// Reads it off a parsed file.
    pub(super) fn of(ast: &AST) -> Self {
        let mut outline = Self::default();
        for function in ast.iter_functions() {
            outline.functions.push(Defined {
                signature: Signature::of(&function),
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
                        names: call.args.first().and_then(written_out),
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

/// The keys of a map literal.
fn written_out(expr: &Expr) -> Option<BTreeSet<String>> {
    let Expr::Map(map, _) = expr else { return None };
    Some(map.0.iter().map(|(key, _)| key.as_str().to_owned()).collect())
}

/// The property that comes right after a dot.
fn first_property(rhs: &Expr) -> Option<(String, Position)> {
    match rhs {
        Expr::Property(property, at) => Some((property.2.to_string(), *at)),
        Expr::Dot(more, _, _) | Expr::Index(more, _, _) => first_property(&more.lhs),
        _ => None,
    }
}
