//! `profiler compare`: sets runs, files of other tools and estimates side by side; a threshold makes it a check for CI.

mod gate;
mod with;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Status;
use super::program::Program;
use crate::compare::{Case, ComparisonInput, import};
use crate::fault::{Fault, Kind, Result};
use crate::memory::compare::{Claim, Comparison};
use crate::report::{self, Beside, Finding, Page, Rule, SIMULATED, Thresholds, Verdict};
use crate::run::{Found, SCHEMA, hide};
use gate::Gate;
use with::With;

/// Differences that a fault lists.
const LISTED: usize = 5;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders of runs, or files of other tools; the first is what the others are relative to
    #[arg(value_name = "RUN|FILE", required = true)]
    subjects: Vec<PathBuf>,
    /// Compare memory by component with `estimate`, with another RUN|FILE, or with figures of a calculator: weights=13.5,kv=0.4,activations=0.9,overhead=0.6,
    /// in GiB unless a unit follows (13.5GB, 600MiB)
    #[arg(long, value_name = "WHAT")]
    with: Option<String>,
    /// The model, where the run does not say it, or to explain figures from elsewhere: a folder, or a model of the hub
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Exit with status 4 when a difference is more than PCT % of the measured, or something measured is implausible
    #[arg(long, value_name = "PCT", value_parser = percent)]
    fail_above: Option<f64>,
    /// The components or figures that the threshold is on, by name; all when absent
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "fail_above")]
    only: Vec<String>,
    /// Exit with status 4 when a figure is beyond a limit. With a sign it is a change against the first (`p99_ttft_ms<=+5%`, `peak_memory<=+1GiB`,
    /// `output_throughput>=-3%`, `frontier>=-2%`), without one the figure itself (`ttft_ms.p99<=200`, `volume>=60%`). In quotes, or with `=`: `p99_ttft_ms=+5%`. After `=`,
    /// hundredths without a sign are how much worse than the first it may be: `volume=5%`. `*` and `?` stand for anything, `_` for a blank too, and CASE/NAME is one
    /// case's figure. May be given several times
    #[arg(long, value_name = "NAME<=LIMIT", conflicts_with = "with")]
    threshold: Vec<String>,
    /// Exit with status 4 when a figure without a threshold of its own is more than PCT % worse
    #[arg(long, value_name = "PCT", value_parser = percent, conflicts_with = "with")]
    max_regression: Option<f64>,
    /// A figure under a threshold that one side lacks, or that a run cut short leaves open, counts as exceeded
    #[arg(long, conflicts_with = "with")]
    strict: bool,
    /// Markdown for a comment on a pull request
    #[arg(long, conflicts_with_all = ["with", "json"])]
    markdown: bool,
    /// One JSON document, in bytes
    #[arg(long)]
    json: bool,
}

/// A comparison of one case with what is said.
struct Compared {
    title: String,
    case: Case,
    claim: Claim,
    comparison: Comparison,
}

/// Compares, prints, and fails where the threshold is exceeded.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let thresholds = Thresholds {
        rules: args
            .threshold
            .iter()
            .map(|text| Rule::parse(text))
            .collect::<Result<_>>()?,
        most: args.max_regression,
        strict: args.strict,
    };
    if args.strict && !thresholds.any() {
        return Err(
            Fault::usage("`--strict` says how thresholds are held, and there is none")
                .hint("add `--threshold` or `--max-regression`"),
        );
    }
    let subjects: Vec<ComparisonInput> = args.subjects.iter().map(|path| open(path)).collect::<Result<_>>()?;
    let beyond = match &args.with {
        Some(with) => beside_claim(args, &subjects, with, program)?,
        None => {
            if args.model.is_some() {
                return Err(
                    Fault::usage("`--model` explains what is compared with `--with`").hint("add `--with estimate`")
                );
            }
            side_by_side(args, &subjects, &thresholds, program)?
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

/// A run's folder, or a file of another tool.
pub(super) fn open(path: &Path) -> Result<ComparisonInput> {
    if path.is_dir() {
        return ComparisonInput::of(&Found::read(path)?, &path.display().to_string());
    }
    import::read(path)
}

fn beside_claim(args: &Args, subjects: &[ComparisonInput], with: &str, program: &Program) -> Result<Vec<String>> {
    let with = With::read(with, args.model.as_deref(), program)?;
    let mut all = Vec::new();
    for subject in subjects {
        for case in &subject.cases {
            let Some(measured) = &case.breakdown else { continue };
            let Some(claim) = with.claim(subject, case)? else {
                continue;
            };
            all.push(Compared {
                title: subject.title.clone(),
                comparison: Comparison::new(measured, &case.facts, &claim),
                case: case.clone(),
                claim,
            });
        }
    }
    if all.is_empty() {
        let names: Vec<_> = subjects.iter().map(|subject| format!("`{}`", subject.title)).collect();
        return Err(Fault::usage(format!(
            "nothing to compare: {} and what it is compared with have no memory by component in common",
            names.join(", ")
        ))
        .hint("a run has it when its script calls `memory::breakdown` of `std/memory`, as `profiler run memory_breakdown` does"));
    }
    let mut beyond = Vec::new();
    if let Some(percent) = args.fail_above {
        let gate = Gate(&args.only);
        gate.check(&gate::components(all.iter().map(|one| &one.comparison)))?;
        for one in &all {
            let rows = one.comparison.beyond(percent).into_iter();
            for row in rows.filter(|row| gate.on(row.term.name())) {
                let apart = row.percent.map_or_else(
                    || "where nothing was measured".to_owned(),
                    |percent| format!("{percent:+.1} %"),
                );
                beyond.push(format!("{} of {} {apart}", row.term.name(), one.case.name));
            }
            let implausible = one.case.implausible.iter();
            beyond.extend(implausible.map(|found| format!("{} of {}", found.name, one.case.name)));
        }
    }
    let simulated = subjects.iter().any(|subject| subject.simulated);
    if args.json {
        let cases: Vec<Value> = all.iter().map(document).collect();
        let document = json!({
            "schema": SCHEMA,
            "simulated": simulated,
            "cases": cases,
            "notes": notes(subjects),
            "fail_above": args.fail_above,
            "exceeded": beyond,
        });
        print(program, &document)?;
        return Ok(beyond);
    }
    let page = Page::from(&program.terminal);
    let mut parts = Vec::new();
    if simulated {
        parts.push(SIMULATED.to_owned());
    }
    parts.extend(all.iter().filter_map(|one| report::implausible(&one.case, page)));
    for one in &all {
        let name = format!("{} of {}", one.case.name, one.title);
        parts.push(report::comparison(&name, &one.claim, &one.comparison, page));
    }
    let notes = notes(subjects);
    if !notes.is_empty() {
        parts.push(report::notes(&notes, page));
    }
    program.terminal.print(&hide(&parts.join("\n\n")))?;
    Ok(beyond)
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

fn side_by_side(
    args: &Args,
    subjects: &[ComparisonInput],
    thresholds: &Thresholds,
    program: &Program,
) -> Result<Vec<String>> {
    if subjects.len() < 2 {
        return Err(Fault::usage("one alone cannot be compared")
            .hint("name a second run or file, or say what to compare with: --with estimate"));
    }
    let beside = Beside::of(subjects)?;
    let judged = thresholds.judge(&beside, subjects)?;
    for doubt in report::doubts(subjects) {
        program.terminal.say(&format!("warning: {}", hide(&doubt)));
    }
    for finding in judged.findings.iter().filter(|one| one.threshold.is_some()) {
        if let (Some(_), Verdict::NotComparable | Verdict::NoDifferenceSeen) = (&finding.why, finding.verdict) {
            program
                .terminal
                .say(&hide(&format!("warning: {}: {}", exceeded(finding), finding.said())));
        }
    }
    let mut beyond: Vec<String> = judged.of(Verdict::Exceeded).map(exceeded).collect();
    if let Some(percent) = args.fail_above {
        let gate = Gate(&args.only);
        gate.check(&gate::figures(&beside))?;
        beyond.extend(beside.beyond(percent, |name| gate.on(name)));
    }
    if args.fail_above.is_some() || thresholds.any() {
        for subject in subjects {
            for case in &subject.cases {
                let found = case.implausible.iter();
                beyond.extend(found.map(|found| format!("{} of {} of {}", found.name, case.name, subject.title)));
            }
        }
    }
    if args.markdown {
        program
            .terminal
            .print(&hide(&report::markdown(subjects, &beside, &judged)))?;
        return Ok(beyond);
    }
    if args.json {
        let heads: Vec<Value> = subjects.iter().map(head).collect();
        let thresholds: Vec<&str> = thresholds.rules.iter().map(|rule| rule.text.as_str()).collect();
        let document = json!({
            "schema": SCHEMA,
            "simulated": subjects.iter().any(|subject| subject.simulated),
            "subjects": heads,
            "unlike": beside.unlike,
            "sections": beside.sections,
            "alone": beside.alone,
            "turned": beside.turned,
            "advice": beside.advice,
            "notes": beside.notes,
            "fail_above": args.fail_above,
            "thresholds": thresholds,
            "max_regression": args.max_regression,
            "strict": args.strict,
            "findings": judged.findings,
            "exceeded": beyond,
        });
        print(program, &document)?;
        return Ok(beyond);
    }
    let text = report::beside(subjects, &beside, &judged, Page::from(&program.terminal));
    program.terminal.print(&hide(&text))?;
    Ok(beyond)
}

/// A finding beyond its threshold, in a few words.
fn exceeded(finding: &Finding) -> String {
    let (name, case) = (&finding.name, &finding.case);
    let threshold = finding.threshold.as_deref().unwrap_or_default();
    match finding.after.zip(finding.before) {
        Some(_) => {
            let apart = finding
                .percent
                .map_or_else(String::new, |percent| format!(" {percent:+.1} %"));
            let why = finding.why.as_ref().filter(|_| finding.verdict == Verdict::Exceeded);
            let why = why.map_or_else(String::new, |why| format!(" not comparable, {why}"));
            format!("{name} of {case}{apart}{why} ({threshold})")
        }
        None => format!("{name} of {case} is not on both sides ({threshold})"),
    }
}

/// A subject without its cases.
fn head(subject: &ComparisonInput) -> Value {
    let found = |case: &Case| json!({ "case": case.name, "implausible": case.implausible });
    let implausible = subject
        .cases
        .iter()
        .filter(|case| !case.implausible.is_empty())
        .map(found);
    json!({
        "title": subject.title,
        "format": subject.format,
        "holds": subject.holds,
        "unfinished": subject.unfinished,
        "model": subject.model,
        "engine": subject.engine,
        "simulated": subject.simulated,
        "setup": subject.setup,
        "implausible": implausible.collect::<Vec<_>>(),
        "notes": subject.notes,
    })
}

fn notes(subjects: &[ComparisonInput]) -> Vec<String> {
    let several = subjects.len() > 1;
    let each = subjects.iter().flat_map(|subject| {
        subject.notes.iter().map(move |note| match several {
            true => format!("{}: {note}", subject.title),
            false => note.clone(),
        })
    });
    each.collect()
}

fn print(program: &Program, document: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(document).map_err(|error| Fault::internal(error.to_string()))?;
    program.terminal.print(&hide(&text))
}

/// A number of hundredths, zero or more.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a number of percent, zero or more: 10".to_owned()),
    }
}
