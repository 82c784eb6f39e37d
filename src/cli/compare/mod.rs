//! `profiler compare`: compares runs, files of other tools and estimates. Thresholds make it a check for CI.

mod with;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::program::{Program, Status};
use crate::compare::{self, Case, ComparisonInput};
use crate::fault::{Fault, Kind, Result};
use crate::memory::compare::{Comparison as MemoryComparison, ExternalEstimate};
use crate::report::{self, Block, Comparison, Finding, Page, Rule, Thresholds, Verdict, Weight};
use crate::run::{SCHEMA, hide};
use with::With;

/// Differences listed in the error message.
const LISTED: usize = 5;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders of runs, or files of other tools; the first is the baseline
    #[arg(value_name = "RUN|FILE", required = true)]
    inputs: Vec<PathBuf>,
    /// Compare memory by component with `estimate`, with another RUN|FILE, or with figures of a calculator:
    /// weights=13.5,kv=0.4,activations=0.9,overhead=0.6, in GiB unless a unit follows (13.5GB, 600MiB)
    #[arg(long, value_name = "WHAT")]
    with: Option<String>,
    /// The model, where the run does not say it, or to explain figures from elsewhere: a folder, or a model of the hub
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Exit with status 4 when a difference is more than PCT % of the measured value, or a measured value is
    /// implausible
    #[arg(long, value_name = "PCT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Names of the components or figures that --fail-above checks; all when absent
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "fail_above")]
    only: Vec<String>,
    /// Exit with status 4 when METRIC<=LIMIT (or >=) is violated. With a sign, LIMIT is a change from the
    /// first: `p99_ttft_ms<=+5%`, `peak_memory<=+1GiB`, `frontier>=-2%`; without one, an absolute value:
    /// `ttft_ms.p99<=200ms`, `volume>=60%`. Quote it, or use `=`: `p99_ttft_ms=+5%`, and without a sign
    /// `volume=5%`: at most 5 % worse. Wildcards: `*`, `?`, and `_` also matches a blank; CASE/METRIC selects
    /// one case. Repeatable
    #[arg(long, value_name = "NAME<=LIMIT", conflicts_with = "with")]
    threshold: Vec<String>,
    /// Exit with status 4 when a figure without its own --threshold is more than PCT % worse
    #[arg(long, value_name = "PCT", value_parser = percent, conflicts_with = "with")]
    max_regression: Option<f64>,
    /// A figure with a threshold that one side lacks, or that an unfinished run leaves
    /// undecided, counts as exceeded
    #[arg(long, conflicts_with = "with")]
    strict: bool,
    /// Markdown for a comment on a pull request
    #[arg(long, conflicts_with_all = ["with", "json"])]
    markdown: bool,
    /// One JSON document, in bytes
    #[arg(long)]
    json: bool,
}

/// The comparison of one case with an external estimate.
struct Compared {
    title: String,
    case: Case,
    claim: ExternalEstimate,
    comparison: MemoryComparison,
}

/// Compares and prints; an exceeded threshold is an error.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let thresholds = Thresholds {
        rules: args
            .threshold
            .iter()
            .map(|text| Rule::parse(text))
            .collect::<Result<_>>()?,
        max_regression: args.max_regression,
        strict: args.strict,
    };
    if args.strict && !thresholds.any() {
        return Err(Fault::usage("`--strict` needs a threshold").hint("add `--threshold` or `--max-regression`"));
    }
    let inputs: Vec<ComparisonInput> = args
        .inputs
        .iter()
        .map(|path| compare::open(path))
        .collect::<Result<_>>()?;
    let beyond = match &args.with {
        Some(with) => compare_memory(args, &inputs, with, program)?,
        None => {
            if args.model.is_some() {
                return Err(Fault::usage("`--model` is only used with `--with`").hint("add `--with estimate`"));
            }
            compare_inputs(args, &inputs, &thresholds, program)?
        }
    };
    if beyond.is_empty() {
        return Ok(0);
    }
    let more = beyond.len().saturating_sub(LISTED);
    let shown: Vec<&str> = beyond.iter().take(LISTED).map(String::as_str).collect();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let what = match args.fail_above {
        Some(percent) if !thresholds.any() => format!("more than `--fail-above {percent}` allows"),
        _ => "beyond what the thresholds allow".to_owned(),
    };
    Err(Fault::new(
        Kind::Threshold,
        format!("{what}: {}{more}", shown.join(", ")),
    ))
}

fn compare_memory(args: &Args, inputs: &[ComparisonInput], with: &str, program: &Program) -> Result<Vec<String>> {
    let with = With::read(with, args.model.as_deref(), program)?;
    let mut all = Vec::new();
    for input in inputs {
        for case in &input.cases {
            let Some(measured) = &case.breakdown else { continue };
            let Some(claim) = with.claim(input, case)? else {
                continue;
            };
            all.push(Compared {
                title: input.title.clone(),
                comparison: MemoryComparison::new(measured, &case.facts, &claim),
                case: case.clone(),
                claim,
            });
        }
    }
    if all.is_empty() {
        let names: Vec<_> = inputs.iter().map(|input| format!("`{}`", input.title)).collect();
        return Err(Fault::usage(format!(
            "nothing to compare: {} and `--with` have no memory component in common",
            names.join(", ")
        ))
        .hint("a run has it when its script calls `memory::breakdown` of `std/memory`, as `profiler run memory_breakdown` does"));
    }
    let mut beyond = Vec::new();
    if let Some(percent) = args.fail_above {
        let filter = MetricFilter(&args.only);
        filter.check(&common_components(all.iter().map(|one| &one.comparison)))?;
        for one in &all {
            let rows = one.comparison.exceeding(percent).into_iter();
            for row in rows.filter(|row| filter.includes(row.term.name())) {
                let percent = row.percent.map_or_else(
                    || "where nothing was measured".to_owned(),
                    |percent| format!("{percent:+.1} %"),
                );
                beyond.push(format!("{} of {} {percent}", row.term.name(), one.case.name));
            }
            let implausible = one.case.implausible.iter();
            beyond.extend(implausible.map(|found| format!("{} of {}", found.name, one.case.name)));
        }
    }
    let simulated = inputs.iter().any(|input| input.simulated);
    if args.json {
        let cases: Vec<Value> = all.iter().map(document).collect();
        let document = json!({
            "schema": SCHEMA,
            "simulated": simulated,
            "cases": cases,
            "notes": notes(inputs),
            "fail_above": args.fail_above,
            "exceeded": beyond,
        });
        program.print_json(&document)?;
        return Ok(beyond);
    }
    let notice = simulated.then(|| report::SIMULATED.to_owned());
    let mut blocks: Vec<Block> = Block::notice(notice).into_iter().collect();
    blocks.extend(
        all.iter()
            .filter_map(|one| report::implausible(&one.case, &one.case.name)),
    );
    for one in &all {
        let name = format!("{} of {}", one.case.name, one.title);
        blocks.extend(report::memory_comparison(&name, &one.claim, &one.comparison));
    }
    blocks.extend(Block::list("notes", notes(inputs), Weight::Normal));
    print(&blocks, program)?;
    Ok(beyond)
}

fn print(blocks: &[Block], program: &Program) -> Result<()> {
    let text = report::text(blocks, Page::from(&program.terminal));
    program.terminal.print_wrapped(&hide(&text))
}

fn document(one: &Compared) -> Value {
    json!({
        "subject": one.title,
        "case": one.case.name,
        "with": one.claim,
        "rows": one.comparison.rows,
        "explanations": one.comparison.explanations,
        "implausible": one.case.implausible,
    })
}

fn compare_inputs(
    args: &Args,
    inputs: &[ComparisonInput],
    thresholds: &Thresholds,
    program: &Program,
) -> Result<Vec<String>> {
    if inputs.len() < 2 {
        return Err(Fault::usage("one alone cannot be compared")
            .hint("name a second run or file, or say what to compare with: --with estimate"));
    }
    let comparison = Comparison::new(inputs)?;
    let evaluation = thresholds.evaluate(&comparison, inputs)?;
    for warning in report::completeness_warnings(inputs) {
        program.terminal.print_error(&format!("warning: {}", hide(&warning)));
    }
    for finding in evaluation.findings.iter().filter(|one| one.threshold.is_some()) {
        if let (Some(_), Verdict::NotComparable | Verdict::NotSignificant) = (&finding.why, finding.verdict) {
            program.terminal.print_error(&hide(&format!(
                "warning: {}: {}",
                exceeded(finding),
                finding.verdict_text()
            )));
        }
    }
    let mut beyond: Vec<String> = evaluation.with_verdict(Verdict::Exceeded).map(exceeded).collect();
    if let Some(percent) = args.fail_above {
        let filter = MetricFilter(&args.only);
        filter.check(&common_metrics(&comparison))?;
        beyond.extend(comparison.beyond(percent, |name| filter.includes(name)));
    }
    if args.fail_above.is_some() || thresholds.any() {
        for input in inputs {
            for case in &input.cases {
                let found = case.implausible.iter();
                beyond.extend(found.map(|found| format!("{} of {} of {}", found.name, case.name, input.title)));
            }
        }
    }
    if args.markdown {
        program
            .terminal
            .print(&report::comparison_markdown(inputs, &comparison, &evaluation))?;
        return Ok(beyond);
    }
    if args.json {
        let heads: Vec<Value> = inputs.iter().map(head).collect();
        let thresholds: Vec<&str> = thresholds.rules.iter().map(|rule| rule.text.as_str()).collect();
        let document = json!({
            "schema": SCHEMA,
            "simulated": inputs.iter().any(|input| input.simulated),
            "finding": report::comparison_findings(&comparison, inputs.len()).join("; "),
            "subjects": heads,
            "unlike": comparison.differences,
            "sections": comparison.sections,
            "alone": comparison.unmatched,
            "turned": comparison.changed_points,
            "advice": comparison.advice,
            "notes": comparison.notes,
            "fail_above": args.fail_above,
            "thresholds": thresholds,
            "max_regression": args.max_regression,
            "strict": args.strict,
            "findings": evaluation.findings,
            "exceeded": beyond,
        });
        program.print_json(&document)?;
        return Ok(beyond);
    }
    let sections = report::comparison_sections(inputs, &comparison, &evaluation);
    let blocks: Vec<Block> = sections.into_iter().flat_map(|section| section.blocks).collect();
    print(&blocks, program)?;
    Ok(beyond)
}

/// An exceeded threshold in a few words.
fn exceeded(finding: &Finding) -> String {
    let (name, case) = (&finding.name, &finding.case);
    let threshold = finding.threshold.as_deref().unwrap_or_default();
    match finding.after.zip(finding.before) {
        Some(_) => {
            let percent = finding
                .percent
                .map_or_else(String::new, |percent| format!(" {percent:+.1} %"));
            let why = finding.why.as_ref().filter(|_| finding.verdict == Verdict::Exceeded);
            let why = why.map_or_else(String::new, |why| format!(" not comparable, {why}"));
            format!("{name} of {case}{percent}{why} ({threshold})")
        }
        None => format!("{name} of {case} is not on both sides ({threshold})"),
    }
}

/// The JSON of an input without its cases.
fn head(input: &ComparisonInput) -> Value {
    let found = |case: &Case| json!({ "case": case.name, "implausible": case.implausible });
    let implausible = input
        .cases
        .iter()
        .filter(|case| !case.implausible.is_empty())
        .map(found);
    json!({
        "title": input.title,
        "format": input.format,
        "holds": input.holds,
        "unfinished": input.unfinished,
        "model": input.model,
        "engine": input.engine,
        "simulated": input.simulated,
        "setup": input.setup,
        "implausible": implausible.collect::<Vec<_>>(),
        "notes": input.notes,
    })
}

fn notes(inputs: &[ComparisonInput]) -> Vec<String> {
    let several = inputs.len() > 1;
    let each = inputs.iter().flat_map(|input| {
        input.notes.iter().map(move |note| match several {
            true => format!("{}: {note}", input.title),
            false => note.clone(),
        })
    });
    each.collect()
}

/// Parses a percentage, zero or more.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a number of percent, zero or more: 10".to_owned()),
    }
}

/// The metrics chosen with `--only`; all if empty.
struct MetricFilter<'a>(&'a [String]);

impl MetricFilter<'_> {
    fn includes(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|chosen| chosen == name)
    }

    /// Rejects a threshold on metrics that cannot be compared.
    ///
    /// # Errors
    ///
    /// `usage` if both sides have no metric in common, or lack a chosen one.
    fn check(&self, both: &BTreeSet<&str>) -> Result<()> {
        let list = || both.iter().copied().collect::<Vec<_>>().join(", ");
        if both.is_empty() {
            return Err(
                Fault::usage("no figure is on both sides: `--fail-above` could never be exceeded")
                    .hint("compare runs with common figures, or leave out `--fail-above`"),
            );
        }
        match self.0.iter().find(|chosen| !both.contains(chosen.as_str())) {
            None => Ok(()),
            Some(missing) => Err(
                Fault::usage(format!("`{missing}` is not on both sides and cannot be compared"))
                    .hint(format!("on both sides are: {}", list())),
            ),
        }
    }
}

/// The components that both sides of any of these comparisons have.
fn common_components<'a>(comparisons: impl Iterator<Item = &'a MemoryComparison>) -> BTreeSet<&'a str> {
    let rows = comparisons.flat_map(|comparison| &comparison.rows);
    rows.filter(|row| row.difference.is_some())
        .map(|row| row.term.name())
        .collect()
}

/// The metrics that the baseline and another input have.
fn common_metrics(comparison: &Comparison) -> BTreeSet<&str> {
    let lines = comparison.sections.iter().flat_map(|section| &section.lines);
    lines
        .filter(|line| line.values.first().is_some_and(Option::is_some))
        .map(|line| line.name.as_str())
        .collect()
}
