//! A file written by another tool, for `profiler show`.

use serde_json::Value;

use super::plot::{Entry, Sheet};
use super::sections::{breakdown, overview};
use super::{Block, Extras, Page, SIMULATED, Weight};
use crate::compare::{Case, ComparisonInput, Metric};
use crate::fault::Result;
use crate::fmt::with_unit;
use crate::memory::Footprint;

/// With more cases than this, one table shows only the main metrics.
const MAX_FULL_CASES: usize = 2;

const MAX_COLUMNS: usize = 6;

/// The main metrics, which tables show and findings name first; a name ends at its last letter or is a prefix.
/// Commas separate them.
pub(super) const MAIN_METRICS: &str = "largest input + output that fits,frontier ,volume,\
    output_throughput,request_throughput,total_token_throughput,tokens_per_second,request_goodput,\
    mean_ttft_ms,mean_tpot_ms,mean_itl_ms,mean_e2el_ms,mean_latency_ms,\
    kv_tokens,memory_beside_kv,peak_memory,physical,total_measured,\
    model_weights,kv_cache_pool,kv_cache_used,activations,max_allocated_after,reserved_after,reserved_added,\
    cuda_graphs,framework_overhead,failed,preemptions,start_time";

/// The content of a file; implausible values first.
///
/// # Errors
///
/// Those of the boundary that it holds.
pub fn comparison_input(input: &ComparisonInput, page: Page) -> Result<Vec<Block>> {
    let mut head = vec![format!("{}: {}", input.title, input.format), input.holds.to_owned()];
    let model = input.model.iter().map(|model| format!("model {model}"));
    let engine = input.engine.iter().map(|engine| format!("engine {engine}"));
    head.push(model.chain(engine).collect::<Vec<_>>().join(", "));
    head.retain(|line| !line.is_empty());
    let mut blocks: Vec<Block> = Block::list("", head, Weight::Normal).into_iter().collect();
    blocks.extend(Block::notice(input.simulated.then(|| SIMULATED.to_owned())));
    let of = |case: &Case| {
        if input.cases.len() > 1 {
            case.name.clone()
        } else {
            String::new()
        }
    };
    blocks.extend(input.cases.iter().filter_map(|case| implausible(case, &of(case))));
    if let Some(found) = input.boundary.as_ref().filter(|found| !found.points.is_empty()) {
        blocks.extend(overview(&found.rebuild()?, &Extras::default(), page)?);
    }
    let names = columns(&input.cases);
    // A case with other metrics than the rest, such as a summary, would be an empty row.
    let is_row = |case: &&Case| {
        input.cases.len() > MAX_FULL_CASES && case.figures.iter().any(|figure| names.contains(&figure.name.as_str()))
    };
    let (rows, others): (Vec<&Case>, Vec<&Case>) = input.cases.iter().partition(is_row);
    if !rows.is_empty() {
        blocks.push(Block::Table(summary(&rows, &names)));
        blocks.push(Block::Paragraph("more figures of each with --json".to_owned()));
    }
    for case in others {
        blocks.extend(case_blocks(case, page));
    }
    blocks.extend(Block::list("notes", input.notes.clone(), Weight::Normal));
    Ok(blocks)
}

/// The implausible values of a case; `None` if there are none. `of` says which case it is, where there are several.
pub fn implausible(case: &Case, of: &str) -> Option<Block> {
    let title = match of {
        "" => "implausible".to_owned(),
        of => format!("implausible ({of})"),
    };
    let found = case.implausible.iter();
    let found = found.map(|found| format!("{}: {}", found.name, found.text));
    Block::list(&title, found.collect(), Weight::Warning)
}

fn case_blocks(case: &Case, page: Page) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(all) = &case.breakdown {
        let (per_gpu, details) = (Vec::new(), Value::Null);
        let footprint = Footprint {
            all: all.clone(),
            per_gpu,
            overhead: None,
            details,
        };
        blocks.extend(breakdown(&case.name, &footprint, page));
    }
    if !case.figures.is_empty() {
        let row = |one: &Metric| vec![one.name.as_str().into(), with_unit(one.value, one.unit).into()];
        blocks.push(Sheet::new([case.name.as_str(), ""], case.figures.iter().map(row)).into());
    }
    blocks
}

/// The main metrics that at least one case has.
fn columns(cases: &[Case]) -> Vec<&'static str> {
    let there = |name: &&str| cases.iter().any(|case| case.figure(name).is_some());
    MAIN_METRICS.split(',').filter(there).take(MAX_COLUMNS).collect()
}

/// One row per case; the metrics left out are in the JSON.
fn summary(cases: &[&Case], names: &[&str]) -> Sheet {
    let rows = cases.iter().map(|case| {
        let text = |metric: &Metric| with_unit(metric.value, metric.unit);
        let figures = names.iter().map(|name| Entry::from(case.figure(name).map(text)));
        std::iter::once(case.name.as_str().into()).chain(figures).collect()
    });
    Sheet::new(std::iter::once("").chain(names.iter().copied()), rows)
}
