//! A comparison as sentences and tables for the terminal, Markdown and the page, in this order: warnings, findings,
//! setup, thresholds, changed points, metrics, notes.

use std::collections::BTreeSet;

use super::finding::{ChangedPoint, Comparison, EFFORT, Finding, MetricVerdict, label};
use super::setup::property;
use crate::compare::{Case, ComparisonInput, Direction};
use crate::fmt::{GIB, Unit, list, metric_label, metric_term, relative, with_unit};
use crate::report::document::{Block, Section, Weight, markdown};
use crate::report::plot::{Entry, Sheet, unit_name};
use crate::report::{Count, SIMULATED};

/// Better and worse metrics that a finding names.
const MAX_NAMED: usize = 3;

/// Setup properties that are always listed.
const SETUP: [&str; 8] = [
    "model",
    "engine",
    "address",
    "GPU",
    "runtime",
    "image",
    "simulated profile",
    "script",
];

/// The comparison in sections. Only Markdown shows their headings. `findings` include their thresholds.
pub fn comparison_sections(inputs: &[ComparisonInput], comparison: &Comparison, findings: &[Finding]) -> Vec<Section> {
    let untitled = || Section::new("", "");
    let first = simulated(inputs)
        .into_iter()
        .chain(completeness_warnings(inputs))
        .collect();
    let (mut important, mut others) = (Vec::new(), Vec::new());
    for difference in &comparison.setup_differences {
        let (name, before, after) = (&difference.name, &difference.before, &difference.after);
        let text = format!("{name}: {before}, {after} in {}", label(difference.subject));
        if difference.important {
            important.push(format!("different {text}"));
        } else {
            others.push(text);
        }
    }
    let numbered = || inputs.iter().enumerate();
    let implausible = numbered().flat_map(|(index, input)| {
        let named = move |case| implausible(case, &format!("{} {}", label(index), case.name));
        input.cases.iter().filter_map(named)
    });
    let mut sections = vec![
        untitled().with(Block::warnings(first)),
        untitled().with(comparison_findings(comparison)),
        untitled()
            .with(comparison.advice.clone())
            .with(Block::list("the setups differ", important, Weight::Warning))
            .with(implausible)
            .with([setup_table(inputs)]),
    ];
    let thresholds = threshold_blocks(findings, inputs.len());
    let has_thresholds = !thresholds.is_empty();
    sections.extend(has_thresholds.then(|| Section::new("", "Thresholds").with(thresholds)));
    for (fits, title) in [
        (false, "fitted before, and fail now or are ruled out"),
        (true, "failed or were ruled out before, and fit now"),
    ] {
        let points = changed_points(comparison, fits);
        let heading = title.replacen('f', "F", 1);
        sections.push(Section::new("", heading).with(Block::list(title, points, Weight::Normal)));
    }
    sections.extend(differences(comparison).into_iter().map(|sheet| {
        // If there are thresholds, metrics without one are details.
        if has_thresholds {
            untitled().with([Block::Folded(sheet)])
        } else {
            Section::new("", sheet.title.clone()).with([sheet])
        }
    }));
    let notes = numbered()
        .flat_map(|(index, input)| input.notes.iter().map(move |note| format!("{} {note}", label(index))))
        .chain(comparison.notes.iter().cloned())
        .collect();
    sections.push(
        untitled()
            .with(Block::list("setup differences", others, Weight::Detail))
            .with(Block::list("notes", notes, Weight::Normal)),
    );
    sections
}

/// The comparison as a comment on a pull request: the verdict is the heading, and `last` the last section.
pub fn comparison_markdown(
    inputs: &[ComparisonInput],
    comparison: &Comparison,
    findings: &[Finding],
    last: Option<Section>,
) -> String {
    let headline = if findings.iter().any(|one| one.threshold.is_some()) {
        threshold_headline(inputs, findings)
    } else {
        self::findings(comparison, &labels(inputs.len()), 1).join("; ")
    };
    let mut sections = comparison_sections(inputs, comparison, findings);
    sections.extend(last);
    markdown(&format!("profiler compare: {headline}"), &sections)
}

fn labels(inputs: usize) -> Vec<String> {
    (0..inputs).map(label).collect()
}

/// The result of the thresholds.
fn threshold_headline(inputs: &[ComparisonInput], findings: &[Finding]) -> String {
    let verdict = match count(findings, MetricVerdict::Exceeded) {
        0 => "no threshold exceeded".to_owned(),
        exceeded => format!("{} exceeded", Count(exceeded, "threshold")),
    };
    let others = counts(findings, &[MetricVerdict::NotCompared]);
    let unfinished: String = (0..inputs.len())
        .filter(|index| inputs[*index].unfinished.is_some())
        .map(|index| format!("; {} did not come to its end", label(index)))
        .collect();
    format!("{verdict}{others}{unfinished}")
}

/// The implausible values of a case; `None` if there are none. `of` names the case if there are several.
pub fn implausible(case: &Case, of: &str) -> Option<Block> {
    let title = match of {
        "" => "implausible".to_owned(),
        of => format!("implausible ({of})"),
    };
    let found = case
        .implausible
        .iter()
        .map(|found| format!("{}: {}", found.name, found.text));
    Block::list(&title, found.collect(), Weight::Warning)
}

/// The source, type and setup of each input.
pub(in crate::report) fn setup_table(inputs: &[ComparisonInput]) -> Sheet {
    let row = |name: &str, value: &dyn Fn(&ComparisonInput) -> Option<String>| -> Option<Vec<Entry>> {
        let values = inputs.iter().map(|input| Entry::from(value(input)));
        let row: Vec<Entry> = std::iter::once(name.into()).chain(values).collect();
        row[1..].iter().any(|value| *value != Entry::None).then_some(row)
    };
    let mut rows = vec![
        row("source", &|input| Some(input.title.clone())),
        row("type", &|input| Some(input.holds.to_owned())),
    ];
    rows.extend(SETUP.map(|name| row(name, &|input| property(input, name).map(str::to_owned))));
    let columns = std::iter::once("what was run".to_owned()).chain(labels(inputs.len()));
    Sheet::new(columns, rows.into_iter().flatten())
}

/// Warnings for unfinished runs and for inputs without any measurement.
pub fn completeness_warnings(inputs: &[ComparisonInput]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let label = label(index);
        if input.is_empty() {
            warnings.push(format!("{label} has nothing to compare: nothing was measured"));
        } else if input.unfinished.is_some() {
            warnings.push(format!(
                "{label} did not come to its end: what it has proven is a lower bound, and what it measured may be a part"
            ));
        }
    }
    warnings
}

/// The notice for simulated inputs, if there are any.
fn simulated(inputs: &[ComparisonInput]) -> Option<String> {
    let simulated = (0..inputs.len()).filter(|index| inputs[*index].simulated);
    let labels: Vec<String> = simulated.map(label).collect();
    // An input without metrics was neither simulated nor measured.
    let measured = inputs.iter().any(|input| !input.simulated && !input.is_empty());
    match labels.len() {
        0 => None,
        _ if !measured => Some(SIMULATED.to_owned()),
        _ => Some(format!(
            "SIMULATED: only {}; simulated and measured numbers cannot be compared",
            labels.join(", ")
        )),
    }
}

/// The main metrics, which tables show and findings name first; a name ends at its last letter or is a prefix.
/// Commas separate them.
pub(in crate::report) const MAIN_METRICS: &str = "largest input + output that fits,frontier ,volume,\
    output_throughput,steady_output_throughput,request_throughput,total_token_throughput,tokens_per_second,request_goodput,\
    mean_ttft_ms,mean_tpot_ms,mean_itl_ms,mean_e2el_ms,mean_latency_ms,\
    kv_tokens,memory_beside_kv,peak_memory,physical,total_measured,\
    model_weights,kv_cache_pool,kv_cache_used,activations,max_allocated_after,reserved_after,reserved_added,\
    cuda_graphs,framework_overhead,failed,preemptions,start_time";

/// Families of metrics. A finding names one metric of each.
const FAMILIES: [&str; 6] = ["throughput", "ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "frontier "];

/// Metrics that no finding names: the effort, and metrics that have sentences of their own.
fn is_detail(name: &str) -> bool {
    let details = ["std_", "recommended ", "newly "];
    EFFORT.contains(&name) || details.iter().any(|prefix| name.starts_with(prefix))
}

/// The finding about each input but the first.
pub fn comparison_findings(comparison: &Comparison) -> Vec<String> {
    findings(comparison, &labels(comparison.inputs), MAX_NAMED)
}

/// The finding about each input but the first. `names` are the names of all inputs. Names up to `most` better and up to
/// `most` worse metrics of each.
pub(in crate::report) fn findings(comparison: &Comparison, names: &[String], most: usize) -> Vec<String> {
    (1..names.len())
        .map(|subject| finding(comparison, subject, names, most))
        .collect()
}

fn finding(comparison: &Comparison, subject: usize, names: &[String], most: usize) -> String {
    let (first, name) = (&names[0], &names[subject]);
    let all: Vec<&Finding> = comparison
        .findings
        .iter()
        .filter(|one| one.subject == subject)
        .filter(|one| !is_detail(&one.name) && one.better != Some(Direction::Neutral))
        .collect();
    let named = |wanted: MetricVerdict| -> Option<String> {
        let changed = all.iter().copied().filter(|one| one.verdict == wanted).collect();
        let phrases = phrases(comparison, changed, most);
        (!phrases.is_empty()).then(|| list(&phrases))
    };
    let count = |wanted: fn(&Finding) -> bool| all.iter().filter(|one| wanted(one)).count();
    let mut changes: Vec<String> = Vec::new();
    let (better, worse) = (named(MetricVerdict::Better), named(MetricVerdict::Worse));
    changes.extend(match (better, worse) {
        (Some(better), Some(worse)) => Some(format!("{name} against {first}: better: {better}; worse: {worse}")),
        (Some(better), None) => Some(format!("{name} is better than {first}: {better}")),
        (None, Some(worse)) => Some(format!("{name} is worse than {first}: {worse}")),
        (None, None) => None,
    });
    changes.extend(named(MetricVerdict::Other).map(|other| format!("different: {other}")));
    let same = count(|one| matches!(one.verdict, MetricVerdict::Same | MetricVerdict::NotSignificant));
    // A title has no room for unchanged metrics.
    if same > 0 && (most > 1 || changes.is_empty()) {
        changes.push(format!("no significant difference in {}", Count(same, "metric")));
    }
    let unclear = Count(count(|one| one.why.is_some()), "metric");
    if unclear.0 > 0 {
        changes.push(format!("{unclear} cannot be compared: a run did not come to its end"));
    }
    let apart = comparison
        .not_judged
        .iter()
        .find(|one| one.subject == subject)
        .map(|one| {
            let (before, after) = (&one.before, &one.after);
            format!("{name}: different questions: not judged; {first}: {before}; {name}: {after}")
        });
    let parts: Vec<String> = apart.into_iter().chain(changes).collect();
    match parts.first() {
        None => format!("{name}: nothing in common to compare"),
        Some(part) if part.starts_with(name) => parts.join("; "),
        Some(_) => format!("{name}: {}", parts.join("; ")),
    }
}

/// One phrase for each family of metrics, the most important first; then the number of further families that changed.
fn phrases(comparison: &Comparison, mut changed: Vec<&Finding>, most: usize) -> Vec<String> {
    let rank = |one: &Finding| {
        MAIN_METRICS
            .split(',')
            .position(|name| one.name.starts_with(name))
            .unwrap_or(usize::MAX)
    };
    let size = |one: &Finding| one.percent.map_or(f64::INFINITY, f64::abs);
    changed.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    let mut families: BTreeSet<&str> = BTreeSet::new();
    let mut phrases = Vec::new();
    for one in changed {
        let family = FAMILIES.iter().find(|family| one.name.contains(**family));
        let is_new = families.insert(family.copied().unwrap_or(&one.name));
        if is_new
            && phrases.len() < most
            && let (Some(before), Some(after)) = (one.before, one.after)
        {
            let change = change_phrase(&metric_label(&one.name), one.unit, before, after);
            phrases.push(format!("{change}{}", at(comparison, one)));
        }
    }
    let more = families.len() - phrases.len();
    phrases.extend((more > 0).then(|| format!("{more} more")));
    phrases
}

/// ` at concurrency=8`: the coordinates that distinguish the case from other cases with the same metric.
fn at(comparison: &Comparison, one: &Finding) -> String {
    let having = comparison
        .findings
        .iter()
        .filter(|other| other.name == one.name && other.before.and(other.after).is_some());
    let cases: Vec<&str> = having.map(|other| other.case.as_str()).collect();
    let differs = |word: &&str| cases.iter().any(|case| case.split(' ').all(|other| other != *word));
    let words: Vec<&str> = one.case.split(' ').filter(differs).collect();
    if words.is_empty() {
        String::new()
    } else {
        format!(" at {}", words.join(" "))
    }
}

/// A table for each case: the values of each input, and their differences from the first.
fn differences(comparison: &Comparison) -> Vec<Sheet> {
    let several = comparison.inputs > 2;
    let mut columns = vec!["metric".to_owned(), label(0)];
    for subject in 1..comparison.inputs {
        // A wide table is split, so each column names its input.
        let of_subject = if several { label(subject) + " " } else { String::new() };
        columns.extend([label(subject), format!("{of_subject}against [1]")]);
    }
    let row = |metric: &[Finding]| {
        let first = &metric[0];
        let text = |value: Option<f64>| value.map(|value| with_unit(value, first.unit));
        let before = metric.iter().find_map(|one| one.before);
        let known = before.is_some() as usize + metric.iter().filter(|one| one.after.is_some()).count();
        let mut row: Vec<Entry> = vec![metric_term(&first.name).into(), text(before).into()];
        for subject in 1..comparison.inputs {
            let one = metric.iter().find(|one| one.subject == subject);
            row.extend([text(one.and_then(|one| one.after)).into(), one.and_then(change).into()]);
        }
        (known > 1).then_some(row)
    };
    let cases = comparison.findings.chunk_by(|one, next| one.case == next.case);
    let tables = cases.map(|case| {
        let metrics = case.chunk_by(|one, next| one.name == next.name);
        Sheet::new(columns.clone(), metrics.filter_map(row)).titled(case[0].case.as_str())
    });
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// `+12.0 % better`; without a figure if the difference means nothing.
fn change(one: &Finding) -> Option<String> {
    let verdict = match one.verdict {
        MetricVerdict::Other if one.after > one.before => "higher",
        MetricVerdict::Other => "lower",
        MetricVerdict::Better | MetricVerdict::Worse => one.verdict.name(),
        MetricVerdict::NotCompared if one.before.and(one.after).is_none() => return None,
        MetricVerdict::NotCompared => one.verdict.name(),
        verdict => return Some(verdict.name().to_owned()),
    };
    Some(format!("{} {verdict}", relative(one.percent)).trim_start().to_owned())
}

/// All thresholds with their verdicts, exceeded ones first, and the number of each verdict. Empty without thresholds.
pub fn threshold_blocks(findings: &[Finding], inputs: usize) -> Vec<Block> {
    let mut held: Vec<&Finding> = findings.iter().filter(|one| one.threshold.is_some()).collect();
    if held.is_empty() {
        return Vec::new();
    }
    held.sort_by_key(|finding| finding.verdict);
    let several = inputs > 2;
    // The limit next to it names the unit of tokens.
    let value = |number: Option<f64>, one: &Finding| {
        Entry::from(number.map(|number| with_unit(number, one.unit).trim_end_matches(" tokens").to_owned()))
    };
    let rows = held.iter().map(|one| {
        let run = in_run(one.subject, several);
        vec![
            format!("{} of {}{run}", one.name, one.case).into(),
            one.verdict_text().into(),
            limit(one).into(),
            value(one.before, one),
            value(one.after, one),
            relative(one.percent).into(),
        ]
    });
    let after = if several { "now" } else { "[2]" };
    let sheet = Sheet::new(["thresholds", "", "allowed", "[1]", after, "change"], rows);
    let others = counts(
        findings,
        &[
            MetricVerdict::Within,
            MetricVerdict::NotSignificant,
            MetricVerdict::NotCompared,
        ],
    );
    let summary = format!(
        "thresholds: {} exceeded{others}",
        count(findings, MetricVerdict::Exceeded)
    );
    vec![sheet.into(), summary.into()]
}

/// ` in [3]`, if there are several other inputs.
fn in_run(subject: usize, several: bool) -> String {
    if several {
        format!(" in {}", label(subject))
    } else {
        String::new()
    }
}

/// The limit of a threshold: `<= 210.00 ms`; the user's own text if the limit is unknown.
fn limit(finding: &Finding) -> String {
    let text = |limit: Option<f64>| limit.map(|limit| with_unit(limit, finding.unit));
    let [lowest, highest] = finding.allowed.map(text);
    match (lowest, highest) {
        (None, Some(highest)) => format!("<= {highest}"),
        (Some(lowest), None) => format!(">= {lowest}"),
        (Some(lowest), Some(highest)) => format!("{lowest} to {highest}"),
        (None, None) => finding.threshold.clone().unwrap_or_default(),
    }
}

/// The number of thresholds with this verdict.
fn count(findings: &[Finding], verdict: MetricVerdict) -> usize {
    let held = findings.iter().filter(|one| one.threshold.is_some());
    held.filter(|one| one.verdict == verdict).count()
}

/// `, 1 within, 1 not compared`: the number of thresholds with each verdict, without zeros.
fn counts(findings: &[Finding], verdicts: &[MetricVerdict]) -> String {
    let counted = verdicts
        .iter()
        .map(|verdict| (count(findings, *verdict), verdict.name()))
        .filter(|(count, _)| *count > 0);
    counted.map(|(count, words)| format!(", {count} {words}")).collect()
}

/// `input=4000 output=512: ok, now oom (cuda) at input=3900 output=500` for each point that now fits (`fits`) or now
/// fails.
fn changed_points(comparison: &Comparison, fits: bool) -> Vec<String> {
    let text = |changed: &ChangedPoint| {
        let at = changed.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
        let run = in_run(changed.subject, comparison.inputs > 2);
        format!("{}: {}, now {}{at}{run}", changed.point, changed.before, changed.after)
    };
    let changed = comparison.changed_points.iter().filter(|point| point.fits == fits);
    changed.map(text).collect()
}

/// From this ratio on, a change is stated as a multiple rather than in per cent.
const MULTIPLE: f64 = 1.5;

/// A metric that changed: `2.0x throughput (11.1 against 5.5 requests/s)`, `12 % higher …`, `0.13 GiB more memory`.
pub(in crate::report) fn change_phrase(label: &str, unit: Unit, before: f64, after: f64) -> String {
    if unit == Unit::Bytes {
        let word = if after > before { "more" } else { "less" };
        return format!("{:.2} GiB {word} {label}", (after - before).abs() / GIB);
    }
    let figures = format!("({})", against(after, before, unit));
    let word = if after > before { "higher" } else { "lower" };
    // Percentages are not compared in per cent.
    if before <= 0.0 || unit == Unit::Percent {
        return format!("{word} {label} {figures}");
    }
    let ratio = after / before;
    if ratio >= MULTIPLE {
        let digits = usize::from(ratio < 10.0);
        return format!("{ratio:.digits$}x {label} {figures}");
    }
    let percent = 100.0 * (ratio - 1.0).abs();
    let digits = usize::from(percent < 10.0);
    format!("{percent:.digits$} % {word} {label} {figures}")
}

/// Two values with the same precision and their unit: `11.1 against 5.5 requests/s`.
fn against(after: f64, before: f64, unit: Unit) -> String {
    let digits = decimals([after, before], unit);
    let unit = match unit {
        Unit::Tokens | Unit::Count => String::new(),
        unit => format!(" {}", unit_name(unit)),
    };
    format!("{after:.digits$} against {before:.digits$}{unit}")
}

/// The decimals that values of one row share: three significant digits of the largest.
pub(in crate::report) fn decimals(values: impl IntoIterator<Item = f64>, unit: Unit) -> usize {
    let values: Vec<f64> = values.into_iter().collect();
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    match unit {
        Unit::Bytes => 2,
        Unit::Tokens | Unit::Count if largest >= 100.0 || values.iter().all(|value| value.fract() == 0.0) => 0,
        _ => match largest {
            100.0.. => 0,
            10.0.. => 1,
            1.0.. => 2,
            0.0 => 0,
            _ => 4,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_multiple_or_per_cent_or_memory() {
        for (label, unit, before, after, phrase) in [
            (
                "throughput",
                Unit::RequestsPerSecond,
                5.527,
                11.128,
                "2.0x throughput (11.1 against 5.5 requests/s)",
            ),
            ("memory", Unit::Bytes, 0.0, 0.13 * GIB, "0.13 GiB more memory"),
            (
                "mean TTFT",
                Unit::Milliseconds,
                100.0,
                112.4,
                "12 % higher mean TTFT (112 against 100 ms)",
            ),
            (
                "power",
                Unit::Watts,
                300.0,
                306.0,
                "2.0 % higher power (306 against 300 W)",
            ),
        ] {
            assert_eq!(change_phrase(label, unit, before, after), phrase);
        }
    }
}
