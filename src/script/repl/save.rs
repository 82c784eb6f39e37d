//! Turns a session into a script: imports first, then all successful inputs in order, each function only in its last
//! version.

use rhai::Engine;

use super::items::{ItemKind, split_items};

pub(super) fn script(inputs: &[String]) -> String {
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
mod tests {
    use super::*;

    fn saved(inputs: &[&str]) -> String {
        let inputs: Vec<String> = inputs.iter().map(|input| (*input).to_owned()).collect();
        script(&inputs)
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
