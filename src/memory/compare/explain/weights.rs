//! Weights that are another number of bytes wide than was assumed.

use super::{Case, Explanation, near, ratio};
use crate::memory::compare::{Gib, Term};

/// Widths of weights in bytes, and what they are called. Scales and zero points of quantized ones come on top.
const WIDTHS: [(f64, &str); 4] = [(4.0, "32 bit"), (2.0, "16 bit"), (1.0, "8 bit"), (0.5, "4 bit")];

/// How far bytes a parameter may be from a width: the scales of groups of 32 add an eighth, embeddings may stay 16 bit.
const SLACK: f64 = 0.15;

/// Weights two, four or eight times what is there, or the reverse.
pub(super) fn explain(case: &Case<'_>) -> Option<Explanation> {
    let (said, measured) = case.both(Term::Weights)?;
    let times = ratio(said, measured);
    let step = [2.0, 4.0, 8.0]
        .into_iter()
        .find(|step| near(times, *step) || near(times, 1.0 / step));
    let widths = case
        .facts
        .parameters
        .filter(|count| *count > 0.0)
        .map(|count| (width(said, count), width(measured, count), count));
    let how = match (step, widths) {
        // The widths tell themselves, even where the ratio is blurred by scales.
        (_, Some((Some(assumed), Some(real), count))) if assumed != real => {
            format!(
                "of {:.2} billion parameters, that is {assumed} beside {real}",
                count / 1e9
            )
        }
        // Known widths that agree, or that are none at all, do not explain a step.
        (_, Some(_)) | (None, None) => return None,
        (Some(_), None) => "as weights of another width would take".to_owned(),
    };
    let quantization = case.facts.quantization.as_deref().map(|name| format!(" ({name})"));
    let dtype = case
        .facts
        .weight_dtype
        .as_deref()
        .map(|name| format!("; the measured ones are said to be {name}"));
    Some(Explanation {
        about: Term::Weights.name(),
        assumption: "weight_dtype",
        text: format!(
            "weights of {} are {times:.2} times the {} measured: {how}; the type or quantization{} of the weights was assumed wrongly{}",
            Gib(said),
            Gib(measured),
            quantization.unwrap_or_default(),
            dtype.unwrap_or_default()
        ),
    })
}

/// The width that so many bytes for so many parameters come to.
fn width(bytes: i64, parameters: f64) -> Option<&'static str> {
    let each = bytes as f64 / parameters;
    let fits = |(width, _): &&(f64, &str)| (each / width - 1.0).abs() <= SLACK;
    WIDTHS.iter().find(fits).map(|(_, name)| *name)
}
