//! Memory estimates: several models as one table in GiB with the source of each number, and the comparison of measured
//! memory with an external estimate.

use std::collections::BTreeSet;

use super::plot::{Entry, Sheet};
use super::{Block, Weight};
use crate::fmt::{Gib, list, relative, signed};
use crate::memory::compare::{EstimateComparison, ExternalEstimate, Mark, Term};
use crate::memory::{Component, Estimate, Fits, Part};

/// A table with a column for each model; then the sources and notes of each.
pub fn estimates(estimates: &[(&str, Estimate)]) -> Vec<Block> {
    let Some((_, first)) = estimates.first() else {
        return Vec::new();
    };
    let request = &first.question;
    let (input, output, concurrency, ranks) = (
        request.input,
        request.output,
        request.concurrency,
        request.tensor_parallel,
    );
    let each = if ranks == 1 { "one rank" } else { "each rank" };
    let head = format!(
        "estimate, nothing was started: input {input}, output {output}, concurrency {concurrency}, {each} of {ranks}"
    );
    let columns = std::iter::once("").chain(columns(estimates));
    let mut blocks = vec![
        Block::Paragraph(head),
        Block::Table(Sheet::new(columns, rows(estimates))),
    ];
    blocks.extend(estimates.iter().filter_map(|(model, estimate)| {
        let title = format!("{model} ({})", estimate.family);
        Block::list(&title, sources(estimate), Weight::Normal)
    }));
    blocks
}

/// Table rows: a label and one value per model.
fn rows(estimates: &[(&str, Estimate)]) -> Vec<Vec<Entry>> {
    let row = |label: &str, value: &dyn Fn(&Estimate) -> Entry| -> Vec<Entry> {
        let values = estimates.iter().map(|(_, estimate)| value(estimate));
        std::iter::once(label.into()).chain(values).collect()
    };
    let ranks = estimates.first().map_or(1, |(_, one)| one.question.tensor_parallel);
    let component = |component: Component| {
        let provenance = estimates
            .iter()
            .find_map(|(_, one)| Some(part(one, component)?.provenance))
            .map_or_else(String::new, |provenance| format!(" ({provenance})"));
        let bytes = |one: &Estimate| Entry::from(part(one, component).map(|part| Gib(part.bytes).to_string()));
        row(&format!("{}{provenance}", component.title()), &bytes)
    };
    let mut rows = vec![
        row("parameters", &|one| {
            format!("{:.3} B", one.parameters as f64 / 1e9).into()
        }),
        row("weights", &|one| match &one.quantization {
            Some(quantization) => format!("{quantization}, {}", one.dtype).into(),
            None => one.dtype.to_string().into(),
        }),
        row("KV cache", &|one| one.kv_cache_dtype.to_string().into()),
        component(Component::Weights),
        component(Component::KvUsed),
        component(Component::Activations),
        component(Component::RuntimeContext),
        row("total", &|one| one.ranks.first().map(|rank| gib(rank.total)).into()),
    ];
    if ranks > 1 {
        rows.push(row(&format!("on all {ranks} ranks"), &|one| {
            gib(one.total.total).into()
        }));
    }
    rows.push(row("KV bytes per token", &|one| {
        one.kv_bytes_per_token.to_string().into()
    }));
    if ranks > 1 {
        rows.push(row("on each rank", &|one| {
            one.kv_bytes_per_token_per_rank.to_string().into()
        }));
    }
    if estimates.iter().any(|(_, one)| one.state_bytes_per_sequence > 0) {
        let bytes = |one: &Estimate| Entry::from(one.state_bytes_per_sequence.to_string());
        rows.push(row("state bytes of a sequence", &bytes));
    }
    if estimates.iter().any(|(_, one)| one.state_blocks.is_some()) {
        let tokens = |one: &Estimate| Entry::from(one.state_blocks.map(|blocks| blocks.tokens.to_string()));
        rows.push(row("tokens of a block", &tokens));
    }
    if estimates.iter().any(|(_, estimate)| estimate.fits.is_some()) {
        let fits = |label: &str, value: fn(&Fits) -> String| row(label, &|one| one.fits.as_ref().map(value).into());
        rows.extend([
            fits("usable of a GPU", |fits| gib(fits.budget)),
            fits("left for KV cache", |fits| gib(fits.kv_bytes)),
            fits("tokens of KV cache", |fits| {
                fits.tokens.map_or("any".to_owned(), |tokens| tokens.to_string())
            }),
            fits("concurrent requests", |fits| fits.sequences.to_string()),
            fits("longest sequence", |fits| fits.longest.to_string()),
            fits("fits", |fits| if fits.fits { "yes" } else { "no" }.to_owned()),
        ]);
        if estimates.iter().any(|(_, one)| one.state_blocks.is_some()) {
            let slots = |one: &Estimate| Some(one.fits.as_ref()?.state_slots?.to_string());
            rows.push(row("state slots", &|one| slots(one).into()));
        }
    }
    rows
}

/// The sources of a model's numbers, its layers and its notes.
fn sources(estimate: &Estimate) -> Vec<String> {
    let parts = estimate.ranks.iter().take(1).flat_map(|rank| &rank.parts);
    let shown = parts.filter(|part| part.component != Component::Unexplained);
    let mut lines: Vec<String> = shown
        .map(|part| format!("{}, {}: {}", part.component.title(), part.provenance, part.source))
        .collect();
    let kinds = estimate.layers.iter().map(|kind| {
        let mut state = Vec::new();
        if kind.kv_bytes_per_token > 0 {
            state.push(match kind.window {
                Some(window) => format!("{} bytes of each of the last {window} tokens", kind.kv_bytes_per_token),
                None => format!("{} bytes of each token", kind.kv_bytes_per_token),
            });
        }
        if kind.state_bytes > 0 {
            state.push(format!("{} bytes of each sequence", kind.state_bytes));
        }
        if state.is_empty() {
            state.push("nothing".to_owned());
        }
        let keep = if kind.count == 1 { "layer keeps" } else { "layers keep" };
        format!("{} {keep} {}", kind.count, state.join(" and "))
    });
    lines.extend(kinds);
    lines.extend(estimate.notes.iter().map(|note| format!("note: {note}")));
    lines
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
    let name = model.trim_end_matches('/').rsplit('/').next();
    name.filter(|name| !name.is_empty()).unwrap_or(model)
}

fn gib(bytes: u64) -> String {
    Gib::from(bytes).to_string()
}

/// Components that the finding names.
const MAX_NAMED: usize = 3;

/// By how much the estimate is off: `too low: weights (-9.7 %); too high: kv (+32.5 %)`.
fn estimate_finding(comparison: &EstimateComparison) -> String {
    let off = |low: bool| {
        let mut rows: Vec<_> = comparison
            .rows
            .iter()
            .filter_map(|row| Some((row.term.name(), row.percent?)))
            .collect();
        rows.retain(|(_, percent)| percent.abs() >= 1.0 && (*percent < 0.0) == low);
        rows.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let named = rows.iter().take(MAX_NAMED);
        list(
            &named
                .map(|(name, percent)| format!("{name} ({percent:+.1} %)"))
                .collect::<Vec<_>>(),
        )
    };
    let parts: Vec<String> = [("too low", off(true)), ("too high", off(false))]
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(direction, names)| format!("{direction}: {names}"))
        .collect();
    if parts.is_empty() {
        "no estimate is off by 1 % or more".to_owned()
    } else {
        format!("the estimate is {}", parts.join("; "))
    }
}

/// Measured memory against an estimate. Differences are estimated minus measured, relative to measured; the match is good
/// within the variance that is expected of the component, and fair within twice that.
pub fn memory_comparison(name: &str, claim: &ExternalEstimate, comparison: &EstimateComparison) -> Vec<Block> {
    let gib = |bytes: Option<i64>| Entry::from(bytes.map(|bytes| Gib(bytes).to_string()));
    let rows = comparison.rows.iter().map(|row| {
        let difference = row.difference.map(|difference| signed(Gib(difference).to_string()));
        let percent = row.percent.map(|percent| relative(Some(percent)).replace(" %", ""));
        [
            ("component", row.term.name().into()),
            ("measured", gib(row.measured)),
            ("estimate", gib(row.said)),
            ("difference", difference.into()),
            ("%", percent.into()),
            ("expected, %", format!("±{}", row.term.expected_variance()).into()),
            ("match", row.mark.map_or("-", Mark::text).into()),
        ]
    });
    let finding = format!("{name} compared with {}: {}", claim.by, estimate_finding(comparison));
    let measured = comparison.rows.iter().filter_map(|row| {
        let from = row.measured_as.as_ref()?;
        Some(format!("{}: {from}", row.term.name()))
    });
    let explanations = comparison
        .explanations
        .iter()
        .map(|found| format!("{} ({}): {}", found.about, found.assumption, found.text));
    let lists = [
        ("what was measured", measured.collect()),
        ("which assumption explains it", explanations.collect()),
    ];
    let mut blocks = vec![Block::Finding(finding), Block::Table(Sheet::from_rows(rows))];
    for (title, items) in lists {
        blocks.extend(Block::list(title, items, Weight::Normal));
    }
    blocks
}

/// The errors of an estimate over several named measurements, by the group of each component and measurement, which
/// `group` names (`title` is its heading); those without a name are left out. `None` for a single measurement.
pub fn estimate_errors(
    cases: &[(String, &EstimateComparison)],
    title: &str,
    what: &str,
    group: impl Fn(Term, usize) -> Option<String>,
) -> Option<Block> {
    let mut groups: Vec<(String, Vec<(f64, &str)>)> = Vec::new();
    let compared = cases.iter().enumerate().flat_map(|(index, (name, case))| {
        let rows = case.rows.iter().filter_map(|row| Some((row.term, row.percent?)));
        rows.map(move |(term, percent)| (term, index, percent, name.as_str()))
    });
    let mut compared: Vec<_> = compared.collect();
    compared.sort_by_key(|(term, ..)| *term);
    for (term, index, percent, name) in compared {
        let Some(of) = group(term, index) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == of) {
            Some((_, errors)) => errors.push((percent, name)),
            None => groups.push((of, vec![(percent, name)])),
        }
    }
    let several = cases.len() > 1 && !groups.is_empty();
    let rows = groups.into_iter().map(|(of, mut errors)| {
        errors.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let count = errors.len();
        let mean = errors.iter().map(|(error, _)| error).sum::<f64>() / count as f64;
        let median = f64::midpoint(errors[(count - 1) / 2].0.abs(), errors[count / 2].0.abs());
        let (largest, case) = errors.swap_remove(count - 1);
        [
            (title, of.into()),
            ("compared", (count as f64).into()),
            ("mean error", relative(Some(mean)).into()),
            (
                "median, without sign",
                relative(Some(median)).trim_start_matches('+').into(),
            ),
            ("largest error", relative(Some(largest)).into()),
            ("of", case.into()),
        ]
    });
    let heading = format!("{what} {} measurements", cases.len());
    several.then(|| Block::Table(Sheet::from_rows(rows).titled(heading)))
}
