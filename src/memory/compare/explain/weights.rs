//! Weights with another number of bytes than was assumed.

use super::{Case, Explanation, near, ratio};
use crate::memory::compare::{Gib, Term};

/// Widths of weights in bytes, and their names. Scales and zero points of quantized weights come on top.
const WIDTHS: [(f64, &str); 4] = [(4.0, "32 bit"), (2.0, "16 bit"), (1.0, "8 bit"), (0.5, "4 bit")];

/// Tolerance of bytes per parameter: the scales of groups of 32 add an eighth, and embeddings may stay 16-bit.
const SLACK: f64 = 0.15;

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
        // The widths identify themselves, even if scales blur the ratio.
        (_, Some((Some(assumed), Some(real), count))) if assumed != real => {
            format!(
                "of {:.2} billion parameters, that is {assumed} against {real}",
                count / 1e9
            )
        }
        // Known widths that agree, or that match none, do not explain the ratio.
        (_, Some(_)) | (None, None) => return None,
        (Some(_), None) => "as if weights had another width".to_owned(),
    };
    let quantization = case.facts.quantization.as_deref().map(|name| format!(" ({name})"));
    let dtype = case
        .facts
        .weight_dtype
        .as_deref()
        .map(|name| format!("; the measured ones are {name}"));
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

/// The width that this many bytes for this many parameters come to.
fn width(bytes: i64, parameters: f64) -> Option<&'static str> {
    let each = bytes as f64 / parameters;
    let fits = |(width, _): &&(f64, &str)| (each / width - 1.0).abs() <= SLACK;
    WIDTHS.iter().find(fits).map(|(_, name)| *name)
}
