//! Memory estimates for the terminal: several models as one table in GiB with the source of each number, and the
//! comparison of measured memory with an external estimate.

use std::collections::BTreeSet;

use super::Page;
use super::comparison_input::lines;
use super::table::table;
use crate::fmt::{Gib, list, relative, signed};
use crate::memory::compare::{Comparison, ExternalEstimate};
use crate::memory::{Component, Estimate, Part};

/// One column per model, wrapped into several tables if the page is too narrow; then the sources and notes of
/// each model.
#[must_use]
pub fn estimates(estimates: &[(&str, Estimate)], page: Page) -> String {
    let Some((_, first)) = estimates.first() else {
        return String::new();
    };
    let question = &first.question;
    let head = format!(
        "estimate, nothing was started: input {}, output {}, concurrency {}, {} of {}",
        question.input,
        question.output,
        question.concurrency,
        if question.tensor_parallel == 1 {
            "one rank"
        } else {
            "each rank"
        },
        question.tensor_parallel,
    );
    let mut parts = vec![head];
    parts.push(columns_of(&columns(estimates), &rows(estimates), page));
    parts.extend(estimates.iter().map(|(model, estimate)| sources(model, estimate, page)));
    parts.join("\n\n")
}

fn columns_of(models: &[&str], rows: &[(String, Vec<String>)], page: Page) -> String {
    let label = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let headings: Vec<&str> = std::iter::once("").chain(models.iter().copied()).collect();
    let rows = rows.iter().map(|(name, values)| {
        std::iter::once(format!("{name:label$}"))
            .chain(values.iter().cloned())
            .collect()
    });
    table(&headings, &rows.collect::<Vec<_>>(), page)
}

/// Table rows: a label and one value per model.
fn rows(estimates: &[(&str, Estimate)]) -> Vec<(String, Vec<String>)> {
    let row = |label: &str, value: &dyn Fn(&Estimate) -> String| {
        let values = estimates.iter().map(|(_, estimate)| value(estimate)).collect();
        (label.to_owned(), values)
    };
    let ranks = estimates
        .first()
        .map_or(1, |(_, estimate)| estimate.question.tensor_parallel);
    let component = |component: Component| {
        let provenance = estimates
            .iter()
            .find_map(|(_, estimate)| Some(part(estimate, component)?.provenance));
        let label = provenance.map_or_else(
            || component.title().to_owned(),
            |provenance| format!("{} ({provenance})", component.title()),
        );
        row(&label, &|estimate| {
            part(estimate, component).map_or_else(String::new, |part| gib(u64::try_from(part.bytes).unwrap_or(0)))
        })
    };
    let mut rows = vec![
        row("parameters", &|estimate| billions(estimate.parameters)),
        row("weights", &|estimate| match &estimate.quantization {
            Some(quantization) => format!("{quantization}, {}", estimate.dtype),
            None => estimate.dtype.to_string(),
        }),
        row("KV cache", &|estimate| estimate.kv_cache_dtype.to_string()),
        component(Component::Weights),
        component(Component::KvUsed),
        component(Component::Activations),
        component(Component::RuntimeContext),
    ];
    rows.push(row("total", &|estimate| {
        estimate.ranks.first().map_or_else(String::new, |rank| gib(rank.total))
    }));
    if ranks > 1 {
        rows.push(row(&format!("on all {ranks} ranks"), &|estimate| {
            gib(estimate.total.total)
        }));
    }
    rows.push(row("KV bytes per token", &|estimate| {
        estimate.kv_bytes_per_token.to_string()
    }));
    if ranks > 1 {
        rows.push(row("on each rank", &|estimate| {
            estimate.kv_bytes_per_token_per_rank.to_string()
        }));
    }
    if estimates
        .iter()
        .any(|(_, estimate)| estimate.state_bytes_per_sequence > 0)
    {
        rows.push(row("state bytes of a sequence", &|estimate| {
            estimate.state_bytes_per_sequence.to_string()
        }));
    }
    if estimates.iter().any(|(_, estimate)| estimate.fits.is_some()) {
        let fits = |label: &str, value: &dyn Fn(&crate::memory::Fits) -> String| {
            row(label, &|estimate| {
                estimate.fits.as_ref().map_or_else(String::new, value)
            })
        };
        rows.push(fits("usable of a GPU", &|fits| gib(fits.budget)));
        rows.push(fits("left for KV cache", &|fits| gib(fits.kv_bytes)));
        rows.push(fits("tokens of KV cache", &|fits| {
            fits.tokens
                .map_or_else(|| "any".to_owned(), |tokens| tokens.to_string())
        }));
        rows.push(fits("concurrent requests", &|fits| fits.sequences.to_string()));
        rows.push(fits("longest sequence", &|fits| fits.longest.to_string()));
        rows.push(fits("fits", &|fits| if fits.fits { "yes" } else { "no" }.to_owned()));
    }
    rows
}

/// The sources of a model's numbers, its layers and its notes.
fn sources(model: &str, estimate: &Estimate, page: Page) -> String {
    let mut lines_of_model = Vec::new();
    let parts = estimate
        .ranks
        .first()
        .map(|rank| rank.parts.as_slice())
        .unwrap_or_default();
    let shown = parts.iter().filter(|part| part.component != Component::Unexplained);
    lines_of_model
        .extend(shown.map(|part| format!("{}, {}: {}", part.component.title(), part.provenance, part.source)));
    let kinds = estimate.layers.iter().map(|kind| {
        let mut kept = Vec::new();
        if kind.kv_bytes_per_token > 0 {
            kept.push(match kind.window {
                Some(window) => format!("{} bytes of each of the last {window} tokens", kind.kv_bytes_per_token),
                None => format!("{} bytes of each token", kind.kv_bytes_per_token),
            });
        }
        if kind.state_bytes > 0 {
            kept.push(format!("{} bytes of each sequence", kind.state_bytes));
        }
        let (count, keep) = (kind.count, if kind.count == 1 { "layer keeps" } else { "layers keep" });
        let kept = if kept.is_empty() {
            "nothing".to_owned()
        } else {
            kept.join(" and ")
        };
        format!("{count} {keep} {kept}")
    });
    lines_of_model.extend(kinds);
    lines_of_model.extend(estimate.notes.iter().map(|note| format!("note: {note}")));
    let lines_of_model = lines(lines_of_model.iter().map(String::as_str), page);
    format!("{model} ({})\n{lines_of_model}", estimate.family)
}

fn part(estimate: &Estimate, component: Component) -> Option<&Part> {
    estimate.ranks.first()?.part(component)
}

/// Column names: the last path component, unless two models would share it.
fn columns<'a>(estimates: &[(&'a str, Estimate)]) -> Vec<&'a str> {
    let names: Vec<&str> = estimates.iter().map(|(model, _)| short(model)).collect();
    let distinct: BTreeSet<&&str> = names.iter().collect();
    if distinct.len() == names.len() {
        return names;
    }
    estimates.iter().map(|(model, _)| *model).collect()
}

fn short(model: &str) -> &str {
    let trimmed = model.trim_end_matches('/');
    trimmed
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(model)
}

fn gib(bytes: u64) -> String {
    Gib::from(bytes).to_string()
}

fn billions(parameters: u64) -> String {
    format!("{:.3} B", parameters as f64 / 1e9)
}

/// Components that the finding names.
const MAX_NAMED: usize = 3;

/// By how much the estimate is off: `too low: weights (-9.7 %); too high: kv (+32.5 %)`.
fn estimate_finding(comparison: &Comparison) -> String {
    let off = |low: bool| {
        let rows = comparison
            .rows
            .iter()
            .filter_map(|row| Some((row.term.name(), row.percent?)));
        let mut rows: Vec<_> = rows
            .filter(|(_, percent)| percent.abs() >= 1.0 && (*percent < 0.0) == low)
            .collect();
        rows.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let named = rows
            .into_iter()
            .take(MAX_NAMED)
            .map(|(name, percent)| format!("{name} ({percent:+.1} %)"));
        list(&named.collect::<Vec<_>>())
    };
    let parts: Vec<String> = [("too low", off(true)), ("too high", off(false))]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {names}"))
        .collect();
    match parts.is_empty() {
        true => "no estimate is off by 1 % or more".to_owned(),
        false => format!("the estimate is {}", parts.join("; ")),
    }
}

/// Formats one comparison. Differences are estimated minus measured, relative to measured. No trailing newline.
pub fn memory_comparison(name: &str, claim: &ExternalEstimate, comparison: &Comparison, page: Page) -> String {
    let gib = |bytes: Option<i64>| bytes.map_or_else(|| "-".to_owned(), |bytes| Gib(bytes).to_string());
    let rows: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .map(|row| {
            vec![
                row.term.name().to_owned(),
                gib(row.measured),
                gib(row.said),
                row.difference
                    .map_or_else(String::new, |difference| signed(Gib(difference).to_string())),
                relative(row.percent).replace(" %", ""),
            ]
        })
        .collect();
    let mut parts = vec![format!(
        "{name} compared with {}: {}\n\n{}",
        claim.by,
        estimate_finding(comparison),
        table(&["component", "measured", "estimate", "difference", "%"], &rows, page)
    )];
    let measured = comparison.rows.iter().filter_map(|row| {
        let from = row.measured_as.as_ref()?;
        Some(format!("{}: {from}", row.term.name()))
    });
    let measured: Vec<String> = measured.collect();
    if !measured.is_empty() {
        parts.push(format!(
            "what was measured\n{}",
            lines(measured.iter().map(String::as_str), page)
        ));
    }
    if !comparison.explanations.is_empty() {
        let found = comparison
            .explanations
            .iter()
            .map(|found| format!("{} ({}): {}", found.about, found.assumption, found.text));
        let found: Vec<String> = found.collect();
        parts.push(format!(
            "which assumption explains it\n{}",
            lines(found.iter().map(String::as_str), page)
        ));
    }
    if !claim.notes.is_empty() {
        parts.push(format!(
            "notes\n{}",
            lines(claim.notes.iter().map(String::as_str), page)
        ));
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::columns_of;
    use crate::report::Page;

    #[test]
    fn models_that_do_not_fit_the_width_get_their_own_table() {
        let rows = [("weights".to_owned(), vec!["13.49 GiB".to_owned(); 3])];
        let models = ["llama-8b", "mistral-nemo-12b", "gpt2"];
        let drawn = |width| {
            let page = Page {
                width,
                ..Page::default()
            };
            columns_of(&models, &rows, page)
        };
        assert_eq!(drawn(80).matches("weights").count(), 1);
        let narrow = drawn(40);
        assert_eq!(narrow.matches("weights").count(), 2, "{narrow}");
        assert!(narrow.lines().all(|line| line.len() <= 40), "{narrow}");
    }
}
