//! Modules of a model by their names, as quantizations list them: full names, parts of names, with `*`, or as regular
//! expressions.

use std::collections::{HashMap, HashSet};

use regex::Regex;

use crate::fault::{Fault, Result};

/// A list of names of modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Modules {
    /// Names below each layer; those below every layer, and outside of layers, at `None`.
    names: HashMap<Option<u64>, HashSet<Name>>,
    /// Beginnings of the numbers of whole layers.
    layers: Vec<String>,
    expressions: Vec<Regex>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    text: String,
    /// Whether longer last steps count as well.
    begins: bool,
}

/// The beginnings of the names of modules within layers.
const ROOTS: [&str; 5] = [
    "model.layers.",
    "model.language_model.layers.",
    "language_model.model.layers.",
    "backbone.layers.",
    "layers.",
];
/// More expressions than any file has.
const MOST_EXPRESSIONS: usize = 1000;

impl Modules {
    pub(super) fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut modules = Self::default();
        for pattern in patterns {
            modules.add(pattern)?;
        }
        Ok(modules)
    }

    fn add(&mut self, pattern: &str) -> Result<()> {
        if let Some(expression) = pattern.strip_prefix("re:") {
            // Python's `re.match` is anchored at the beginning.
            let compiled = Regex::new(&format!("^(?:{expression})"))
                .ok()
                .filter(|_| self.expressions.len() < MOST_EXPRESSIONS);
            self.expressions.push(compiled.ok_or_else(|| {
                Fault::usage(format!(
                    "the quantization names modules by `{pattern}`, which cannot be read here"
                ))
            })?);
            return Ok(());
        }
        let pattern = pattern.strip_suffix(".weight").unwrap_or(pattern);
        let below = pattern
            .split_once("layers.")
            .filter(|(before, _)| before.is_empty() || before.ends_with(['.', '*']));
        let Some((root, rest)) = below else {
            self.insert(None, pattern.trim_start_matches("*.").trim_start_matches('*'));
            return Ok(());
        };
        // Layers of other parts.
        if ["mtp", "vision", "visual", "audio", "draft"]
            .iter()
            .any(|part| root.contains(part))
        {
            return Ok(());
        }
        let (number, name) = rest.split_once('.').unwrap_or((rest, "*"));
        match number.parse() {
            Ok(layer) => self.insert(Some(layer), name),
            Err(_) if number == "*" => self.insert(None, name),
            Err(_) => self.layers.extend(number.strip_suffix('*').map(str::to_owned)),
        }
        Ok(())
    }

    fn insert(&mut self, layer: Option<u64>, name: &str) {
        let begins = name.ends_with('*') && !name.ends_with(".*");
        let steps = name.trim_end_matches('*').trim_end_matches('.').split('.');
        // All experts of a layer are alike.
        let steps = steps.filter(|step| *step != "*" && step.parse::<u64>().is_err());
        let text = steps.collect::<Vec<_>>().join(".");
        self.names.entry(layer).or_default().insert(Name { text, begins });
    }

    /// Whether one of these names of a module of a layer is among them.
    pub(super) fn have(&self, layer: Option<u64>, modules: &[&str]) -> bool {
        let within = |at: Option<u64>| self.names.get(&at).into_iter().flatten();
        let below = |name: &Name, module: &str| {
            let rest = module.strip_prefix(name.text.as_str());
            name.text.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || name.begins)
        };
        let anywhere = |name: &Name, module: &str| {
            let ends = |at: usize| {
                module[at + name.text.len()..]
                    .chars()
                    .next()
                    .is_none_or(|next| next == '.' || name.begins)
            };
            let found = |(at, _): (usize, &str)| (at == 0 || module[..at].ends_with('.')) && ends(at);
            !name.text.is_empty() && module.match_indices(name.text.as_str()).any(found)
        };
        let named = |module: &&&str| {
            layer.is_some() && within(layer).any(|name| below(name, module))
                || within(None).any(|name| anywhere(name, module))
        };
        let whole = layer.is_some_and(|layer| {
            let number = layer.to_string();
            self.layers.iter().any(|begin| number.starts_with(begin.as_str()))
                || within(Some(layer)).any(|name| name.text.is_empty())
        });
        let expressed = |module: &&str| {
            // Expressions may name one expert.
            let numbered = module.replace("experts.", "experts.0.");
            let names = [module.to_owned(), numbered.as_str()].map(|module| match layer {
                None => vec![module.to_owned(), format!("language_model.{module}")],
                Some(layer) => ROOTS.iter().map(|root| format!("{root}{layer}.{module}")).collect(),
            });
            let mut names = names.iter().flatten();
            !self.expressions.is_empty() && names.any(|name| self.expressions.iter().any(|one| one.is_match(name)))
        };
        whole || modules.iter().any(|module| named(&module) || expressed(module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_in_many_ways() {
        let have =
            |pattern: &str, layer: Option<u64>, module: &str| Modules::new([pattern]).unwrap().have(layer, &[module]);
        for pattern in [
            "model.layers.1.self_attn.q_proj",
            "model.layers.1.self_attn",
            "model.layers.1.self_attn*",
            "language_model.model.layers.1*",
            "model.layers.*.self_attn",
            "re:.*self_attn.*",
            "*.self_attn.*",
            "self_attn",
            "q_proj",
        ] {
            assert!(have(pattern, Some(1), "self_attn.q_proj"), "{pattern}");
            assert!(
                !have(pattern, Some(1), "mlp.up_proj") || pattern.ends_with("layers.1*"),
                "{pattern}"
            );
        }
        for pattern in [
            "model.layers.2.self_attn",
            "mtp.layers.1.self_attn",
            "model.layers.1.self_attn.k_proj",
            "attn",
            "q",
            "re:self_attn.*",
        ] {
            assert!(!have(pattern, Some(1), "self_attn.q_proj"), "{pattern}");
        }
        assert!(have(
            "model.layers.3.mlp.experts.17.up_proj",
            Some(3),
            "mlp.experts.up_proj"
        ));
        assert!(have("lm_head", None, "lm_head") && !have("lm_head", Some(0), "mlp.up_proj"));
        assert!(!have("model.layers.0.mlp.gate", Some(0), "mlp.gate_proj"));
        assert!(Modules::new(["re:(?!x)"]).is_err());
    }
}
