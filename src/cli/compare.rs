//! `profiler compare`: compares runs, files of other tools and estimates; thresholds make it a check for CI.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::program::{Program, Status};
use crate::compare::{self, Case, ComparisonInput, ServingPoint, Unit};
use crate::fault::{Fault, Kind, Result};
use crate::memory::compare::{EstimateComparison, ExternalEstimate, ModelFacts, Term, model_facts, our_estimate};
use crate::report::{self, Block, Comparison, Finding, MetricVerdict, Page, Rule, Thresholds, Weight};
use crate::run::SCHEMA;

/// Most exceeded thresholds listed in the error message.
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
    /// The model, if the run does not name it, or to explain figures from elsewhere: a folder, or a model of the hub
    #[arg(long, value_name = "MODEL", requires = "with")]
    model: Option<String>,
    /// Exit with status 4 when METRIC<=LIMIT (or >=) is violated. With a sign, LIMIT is a change from the first:
    /// `p99_ttft_ms<=+5%`, `peak_memory<=+1GiB`, `frontier>=-2%`, `weights=±10%`; without one, an absolute value:
    /// `ttft_ms.p99<=200ms`, `volume>=60%`. Quote it, or use `=`: `p99_ttft_ms=+5%`, `weights=+-10%`, and without a
    /// sign `volume=5%`: at most 5 % worse. Wildcards: `*`, `?`, and `_` also matches a blank; CASE/METRIC selects one
    /// case; `*` alone is every figure that no other threshold names. Repeatable
    #[arg(long, value_name = "NAME<=LIMIT")]
    threshold: Vec<String>,
    /// Exit with status 4 when a figure without its own --threshold is more than PCT % worse; the same as
    /// --threshold '*=PCT%'
    #[arg(long, value_name = "PCT", value_parser = percent, conflicts_with = "with")]
    max_regression: Option<f64>,
    /// Exit with status 4 when a figure without its own --threshold differs from the first, or from the measurement, by
    /// more than PCT %; the same as --threshold '*=±PCT%'
    #[arg(long, value_name = "PCT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Names of the components or figures that --fail-above checks; all when absent
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "fail_above")]
    only: Vec<String>,
    /// A figure with a threshold that one side lacks, or that an unfinished run leaves
    /// undecided, counts as exceeded
    #[arg(long)]
    strict: bool,
    /// Markdown for a comment on a pull request
    #[arg(long, conflicts_with_all = ["with", "json"])]
    markdown: bool,
    /// One JSON document, in bytes
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The thresholds, including those from the short options.
    fn thresholds(&self) -> Result<Thresholds> {
        let mut texts = self.threshold.clone();
        texts.extend(self.max_regression.map(|percent| format!("*={percent}%")));
        if let Some(percent) = self.fail_above {
            let names = if self.only.is_empty() {
                vec!["*".to_owned()]
            } else {
                self.only.clone()
            };
            texts.extend(names.iter().map(|name| format!("{name}=±{percent}%")));
        }
        if self.strict && texts.is_empty() {
            return Err(Fault::usage("`--strict` needs a threshold").hint("add `--threshold` or `--max-regression`"));
        }
        Ok(Thresholds {
            rules: texts.iter().map(|text| Rule::parse(text)).collect::<Result<_>>()?,
            strict: self.strict,
        })
    }
}

/// Compares and prints; an exceeded threshold is an error.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let thresholds = args.thresholds()?;
    let inputs: Vec<ComparisonInput> = args
        .inputs
        .iter()
        .map(|path| compare::open(path))
        .collect::<Result<_>>()?;
    let has_both = |input: &ComparisonInput| input.cases.iter().any(|case| case.claim.is_some());
    let with = match (&args.with, inputs.as_slice()) {
        (Some(with), _) => Some(With::read(with, args.model.as_deref(), program)?),
        (None, [input]) if has_both(input) => Some(With {
            what: Reference::Own,
            model: None,
            program,
        }),
        _ => None,
    };
    let estimates = with.map(|with| compare_memory(&inputs, &with)).transpose()?;
    let comparison = match &estimates {
        Some(estimates) => Comparison::from_findings(estimates.iter().flat_map(MemoryCase::findings)),
        None if inputs.len() < 2 => {
            return Err(Fault::usage("nothing to compare with: give a second run or file")
                .hint("name a second run or file, or say what to compare with: --with estimate"));
        }
        None => {
            thresholds.check_inputs(&inputs)?;
            // The text has them itself.
            let warnings = args.json.then(|| report::completeness_warnings(&inputs));
            for warning in warnings.into_iter().flatten() {
                program.note(format!("warning: {warning}"));
            }
            Comparison::new(&inputs)?
        }
    };
    let findings = thresholds.evaluate(&comparison)?;
    for finding in &findings {
        if finding.threshold.is_some() && finding.why.is_some() && finding.verdict != MetricVerdict::Exceeded {
            program.note(format!("warning: {}: {}", finding.summary(), finding.verdict_text()));
        }
    }
    let mut exceeded: Vec<String> = findings
        .iter()
        .filter(|finding| finding.verdict == MetricVerdict::Exceeded)
        .map(Finding::summary)
        .collect();
    if !thresholds.rules.is_empty() {
        exceeded.extend(inputs.iter().flat_map(implausible));
    }
    let labels: Vec<String> = (1..=inputs.len()).map(|number| format!("[{number}]")).collect();
    let served: Vec<(&str, &[ServingPoint])> = labels
        .iter()
        .zip(&inputs)
        .map(|(label, input)| (label.as_str(), input.serving.as_slice()))
        .collect();
    if args.json {
        let rules: Vec<&str> = thresholds.rules.iter().map(|rule| rule.text.as_str()).collect();
        let mut document = json!({
            "schema": SCHEMA,
            "simulated": inputs.iter().any(|input| input.simulated),
            "inputs": inputs,
            "thresholds": rules,
            "strict": args.strict,
            "findings": findings,
            "exceeded": exceeded,
        });
        match &estimates {
            Some(estimates) => document["cases"] = json!(estimates),
            None => {
                document["finding"] = report::comparison_findings(&comparison).join("; ").into();
                document["comparison"] = json!(comparison);
            }
        }
        program.print_json(&document)?;
    } else if args.markdown {
        let frontier = report::serving_section("serving", &served);
        let text = report::comparison_markdown(&inputs, &comparison, &findings, frontier);
        program.terminal.print(&text)?;
    } else {
        let page = Page::from(&program.terminal);
        let blocks = match &estimates {
            Some(estimates) => memory_blocks(&inputs, estimates, &findings),
            None => report::comparison_sections(&inputs, &comparison, &findings)
                .into_iter()
                .flat_map(|section| section.blocks)
                .chain(report::serving_sketch(&served, page))
                .collect(),
        };
        let text = report::text(&blocks, page);
        program.terminal.print_wrapped(&text)?;
    }
    match exceeded.as_slice() {
        [] => Ok(0),
        exceeded => Err(beyond(exceeded)),
    }
}

/// The error if thresholds are exceeded.
fn beyond(exceeded: &[String]) -> Fault {
    let shown = &exceeded[..exceeded.len().min(LISTED)];
    let more = match exceeded.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("thresholds exceeded: {}{more}", shown.join(", "));
    Fault::new(Kind::Threshold, message)
}

/// The impossible values of an input, which every check must report.
fn implausible(input: &ComparisonInput) -> Vec<String> {
    let cases = input
        .cases
        .iter()
        .flat_map(|case| case.implausible.iter().map(move |found| (case, found)));
    cases
        .map(|(case, found)| format!("{} of {} of {}", found.name, case.name, input.title))
        .collect()
}

/// The memory of one case compared with an external estimate.
#[derive(Serialize)]
struct MemoryCase<'a> {
    /// Title of its input.
    input: &'a str,
    /// Its name.
    case: &'a str,
    with: ExternalEstimate,
    #[serde(flatten)]
    comparison: EstimateComparison,
    /// The model that both sides are about.
    #[serde(skip)]
    facts: ModelFacts,
}

/// The class of a model's size, in billions of parameters.
fn size(facts: &ModelFacts) -> String {
    let Some(billions) = facts.parameters.map(|parameters| parameters / 1e9) else {
        return "of unknown size".to_owned();
    };
    let classes = [
        (10.0, "below 10 B"),
        (20.0, "10 to 20 B"),
        (40.0, "20 to 40 B"),
        (80.0, "40 to 80 B"),
    ];
    let class = classes.iter().find(|(below, _)| billions < *below);
    class.map_or("80 B and more", |(_, name)| name).to_owned()
}

fn gpus(facts: &ModelFacts) -> String {
    facts
        .tensor_parallel
        .map_or_else(|| "unknown".to_owned(), |gpus| gpus.to_string())
}

impl MemoryCase<'_> {
    /// Its components as findings. The measurement is the reference and the estimate the change, because a calculator
    /// is wrong where it differs from the measurement.
    fn findings(&self) -> Vec<Finding> {
        let bytes = |bytes: Option<i64>| bytes.map(|bytes| bytes as f64);
        self.comparison
            .rows
            .iter()
            .map(|row| {
                let (measured, said) = (bytes(row.measured), bytes(row.said));
                Finding::new(self.case, row.term.name(), Unit::Bytes, measured, said)
            })
            .collect()
    }
}

fn compare_memory<'a>(inputs: &'a [ComparisonInput], with: &With) -> Result<Vec<MemoryCase<'a>>> {
    let mut all = Vec::new();
    for input in inputs {
        for case in &input.cases {
            let Some(measured) = &case.breakdown else { continue };
            let Some(claim) = with.claim(input, case)? else {
                continue;
            };
            all.push(MemoryCase {
                input: &input.title,
                case: &case.name,
                comparison: EstimateComparison::new(measured, &case.facts, &claim),
                facts: case.facts.or(&claim.facts),
                with: claim,
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
    Ok(all)
}

fn memory_blocks(inputs: &[ComparisonInput], estimates: &[MemoryCase], findings: &[Finding]) -> Vec<Block> {
    let simulated = inputs.iter().any(|input| input.simulated);
    let notice = simulated.then(|| report::SIMULATED.to_owned());
    let mut blocks: Vec<Block> = Block::notice(notice).into_iter().collect();
    let cases = inputs.iter().flat_map(|input| &input.cases);
    blocks.extend(cases.filter_map(|case| report::implausible(case, &case.name)));
    let named = |one: &MemoryCase| format!("{} of {}", one.case, one.input);
    let all: Vec<_> = estimates.iter().map(|one| (named(one), &one.comparison)).collect();
    blocks.extend(report::estimate_errors(
        &all,
        "component",
        "how far the estimate is from",
        |term, _| Some(term.name().to_owned()),
    ));
    // The total error by the size of the model and by the number of GPUs, where there are several.
    type Group = fn(&ModelFacts) -> String;
    let groups: [(&str, Group); 2] = [("model size", size), ("GPUs", gpus)];
    for (title, group) in groups {
        let of = |index: usize| group(&estimates[index].facts);
        if (1..estimates.len()).any(|index| of(index) != of(0)) {
            blocks.extend(report::estimate_errors(
                &all,
                title,
                &format!("error of the total by {title}, in"),
                |term, index| (term == Term::Total).then(|| of(index)),
            ));
        }
    }
    for (name, one) in all.iter().zip(estimates) {
        blocks.extend(report::memory_comparison(&name.0, &one.with, &one.comparison));
    }
    // Both sides may have the same note, and so may several cases.
    let mut notes: Vec<String> = Vec::new();
    let measured = inputs.iter().map(|input| (&input.title, &input.notes));
    let claimed = estimates.iter().map(|one| (&one.with.by, &one.with.notes));
    for (title, all) in measured.chain(claimed) {
        let titled = all.iter().map(|note| format!("{title}: {note}"));
        notes.extend(titled.filter(|note| !notes.contains(note)).collect::<Vec<_>>());
    }
    blocks.extend(Block::list("notes", notes, Weight::Normal));
    blocks.extend(report::threshold_blocks(findings, inputs.len()));
    blocks
}

/// Parses a percentage, zero or more.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a number of percent, zero or more: 10".to_owned()),
    }
}

struct With<'a> {
    what: Reference,
    model: Option<&'a str>,
    program: &'a Program,
}

enum Reference {
    Estimate,
    /// An estimate that the file itself has beside each measurement.
    Own,
    Input(Box<ComparisonInput>),
    /// Numbers given on the command line.
    Figures(Box<ExternalEstimate>),
}

impl<'a> With<'a> {
    /// Parses `--with`; `model` is the value of `--model`.
    fn read(text: &str, model: Option<&'a str>, program: &'a Program) -> Result<Self> {
        let path = Path::new(text);
        let what = match text {
            "estimate" => Reference::Estimate,
            _ if path.exists() => Reference::Input(Box::new(compare::open(path)?)),
            _ if text.contains('=') => Reference::Figures(Box::new(ExternalEstimate::parse(text)?)),
            _ => {
                return Err(
                    Fault::usage(format!("`{text}` is neither a file nor figures to compare with"))
                        .hint("write `--with estimate`, `--with FILE`, or figures: --with weights=13.5,kv=0.4"),
                );
            }
        };
        Ok(Self { what, model, program })
    }

    /// The estimate to compare a case with, if there is one.
    fn claim(&self, input: &ComparisonInput, case: &Case) -> Result<Option<ExternalEstimate>> {
        let claimed = match &self.what {
            Reference::Estimate => {
                let model = self
                    .model
                    .or(case.model.as_deref())
                    .or(input.model.as_deref())
                    .ok_or_else(|| {
                        Fault::usage(format!("`{}` does not name its model", input.title))
                            .hint("name it with --model: a folder, or a model of the hub")
                    })?;
                let named = |fault| if self.model.is_some() { fault } else { elsewhere(fault) };
                let known = self.program.read_model(model).map_err(named)?;
                let claim = our_estimate(model, &known, &case.facts, case.breakdown.as_ref());
                return claim.map(Some).map_err(|fault| cannot(model, fault));
            }
            Reference::Own => case.claim.clone(),
            Reference::Figures(claim) => Some(claim.as_ref().clone()),
            Reference::Input(other) => {
                let claimed = report::matching_case(case, &input.cases, &other.cases);
                claimed.and_then(|claimed| of_case(other, claimed))
            }
        };
        let Some(mut claim) = claimed else { return Ok(None) };
        if let Some(model) = self.model {
            let known = self.program.read_model(model)?;
            let facts = model_facts(&known).map_err(|fault| cannot(model, fault))?;
            claim.facts = claim.facts.or(&facts);
        }
        Ok(Some(claim))
    }
}

fn cannot(model: &str, fault: Fault) -> Fault {
    fault.while_doing(format!("cannot estimate `{model}`"))
}

/// Adds a hint for a model path of the run that cannot be read on this machine.
fn elsewhere(fault: Fault) -> Fault {
    let hint = "or name another copy of it with --model: a folder with its `config.json`, or a model of the hub";
    match fault.hint.clone() {
        Some(first) => fault.hint(format!("{first}; {hint}")),
        None => fault.hint(hint),
    }
}

/// A case of another run or file as an estimate.
fn of_case(other: &ComparisonInput, claimed: &Case) -> Option<ExternalEstimate> {
    let title = format!("{} of {}", claimed.name, other.title);
    let mut claim = ExternalEstimate::from_breakdown(title, claimed.breakdown.as_ref()?, claimed.facts.clone());
    claim.notes.extend(other.notes.iter().cloned());
    let implausible = claimed
        .implausible
        .iter()
        .map(|found| format!("implausible: {}: {}", found.name, found.text));
    claim.notes.extend(implausible);
    Some(claim)
}
