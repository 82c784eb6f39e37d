//! Documents the standard modules from their sources.

use rhai::{Engine, FnAccess};

use super::comment::Comment;
use super::{FunctionDoc, FunctionKind, Param, Section, SectionKind};

/// Functions that every adapter exports. They are documented once in `std/engines`.
const ADAPTER: [&str; 6] = ["facts", "failures", "flags", "launch", "ready", "request"];

/// One section per module, given by name and source.
pub(super) fn sections<'a>(engine: &Engine, modules: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Section> {
    modules
        .into_iter()
        .filter_map(|(name, source)| section(engine, name, source))
        .collect()
}

/// The section of a module; `None` if its source does not compile, which its own tests report.
fn section(engine: &Engine, name: &str, source: &str) -> Option<Section> {
    let ast = engine.compile(source).ok()?;
    let is_adapter = name.starts_with("std/engines/");
    let mut functions: Vec<FunctionDoc> = ast
        .iter_functions()
        .filter(|function| function.access == FnAccess::Public && !function.name.starts_with("anon$"))
        .filter(|function| !(is_adapter && ADAPTER.contains(&function.name)))
        .map(|function| {
            let comment = Comment::parse(function.comments.iter().copied());
            FunctionDoc {
                name: function.name.to_owned(),
                kind: FunctionKind::Function,
                module: Some(name.to_owned()),
                on: None,
                params: function
                    .params
                    .iter()
                    .map(|param| Param {
                        name: (*param).to_owned(),
                        kind: None,
                    })
                    .collect(),
                returns: None,
                settable: false,
                summary: comment.summary,
                docs: comment.docs,
                examples: comment.examples,
            }
        })
        .collect();
    functions.sort_by(|a, b| (&a.name, a.params.len()).cmp(&(&b.name, b.params.len())));
    Some(Section {
        name: name.to_owned(),
        kind: SectionKind::Standard,
        docs: Comment::parse([ast.doc()]).markdown(),
        functions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_shows_only_its_own_functions() {
        let source = "//! An engine.\nfn launch(options) {}\n/// More.\nfn more() {}";
        let sections = sections(&Engine::new(), [("std/engines/mine", source), ("std/search", source)]);
        let names = |index: usize| {
            sections[index]
                .functions
                .iter()
                .map(|f| f.name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!((names(0), names(1)), (vec!["more"], vec!["launch", "more"]));
    }

    #[test]
    fn public_functions_and_module_docs_are_documented() {
        let source = "//! Searches.\n//!\n//! Slowly.\n/// Tries all.\n///\n/// ```rhai\n/// 1\n/// ```\n\
                      fn grid(map, probe) { let each = |x| x; each.call(1) }\nprivate fn hidden() {}";
        let sections = sections(&Engine::new(), [("std/search", source)]);
        let section = &sections[0];
        assert_eq!(section.docs, "Searches.\n\nSlowly.");
        assert_eq!(section.functions.len(), 1);
        let grid = &section.functions[0];
        assert_eq!(grid.signature(), "search::grid(map, probe)");
        assert_eq!((grid.summary.as_str(), grid.examples.len()), ("Tries all.", 1));
    }
}
