//! What changed between two measurements in one sentence: `fp8: 2.0x KV tokens for 0.13 GiB more non-KV memory`.

use crate::experiment::Verdict;
use crate::fmt::{GIB, list};
use crate::report::plot::unit_name;
use crate::unit::Unit;

/// From this ratio on, a change is stated as a multiple rather than in per cent.
const MULTIPLE: f64 = 1.5;

/// A metric that changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// Its name for people.
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) verdict: Verdict,
}

impl Change {
    /// The change in words.
    pub(super) fn phrase(&self) -> String {
        change_phrase(&self.label, self.unit, self.before, self.after)
    }
}

/// A metric that changed: `2.0x throughput (11.1 against 5.5 requests/s)`, `12 % higher …`, `0.13 GiB more memory`.
pub(super) fn change_phrase(label: &str, unit: Unit, before: f64, after: f64) -> String {
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
pub(super) fn decimals(values: impl IntoIterator<Item = f64>, unit: Unit) -> usize {
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

/// The finding about `subject`: what it gains, for what cost, and in which of the metrics that matter there is
/// `no_difference`. Empty without any of these.
pub(super) fn finding(subject: &str, changes: &[Change], no_difference: &[String]) -> String {
    let of = |wanted: fn(Verdict) -> bool| {
        let phrases = changes
            .iter()
            .filter(|change| wanted(change.verdict))
            .map(Change::phrase);
        list(&phrases.collect::<Vec<_>>())
    };
    let better = of(|verdict| verdict == Verdict::Better);
    let worse = of(|verdict| verdict == Verdict::Worse);
    let other = of(|verdict| matches!(verdict, Verdict::Higher | Verdict::Lower));
    let mut parts = match (better.is_empty(), worse.is_empty()) {
        (false, false) => vec![format!("{subject}: {better} for {worse}")],
        (false, true) => vec![format!("{subject}: {better}")],
        (true, false) => vec![format!("{subject}: worse: {worse}")],
        (true, true) => Vec::new(),
    };
    parts.extend(Some(other).filter(|other| !other.is_empty()));
    if !no_difference.is_empty() {
        parts.push(format!("no significant difference in {}", list(no_difference)));
    }
    let text = parts.join("; ");
    match better.is_empty() && worse.is_empty() && !text.is_empty() {
        true => format!("{subject}: {text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(label: &str, unit: Unit, before: f64, after: f64, verdict: Verdict) -> Change {
        Change {
            label: label.to_owned(),
            unit,
            before,
            after,
            verdict,
        }
    }

    #[test]
    fn a_finding_says_gain_and_cost() {
        let throughput = change("throughput", Unit::RequestsPerSecond, 5.527, 11.128, Verdict::Better);
        let memory = change("non-KV memory", Unit::Bytes, 0.0, 0.13 * GIB, Verdict::Worse);
        assert_eq!(
            finding("CUDA graphs", &[throughput.clone(), memory.clone()], &[]),
            "CUDA graphs: 2.0x throughput (11.1 against 5.5 requests/s) for 0.13 GiB more non-KV memory"
        );
        assert_eq!(
            finding("fp8", &[throughput], &["mean TTFT".to_owned()]),
            "fp8: 2.0x throughput (11.1 against 5.5 requests/s); no significant difference in mean TTFT"
        );
        let slower = change("mean TTFT", Unit::Milliseconds, 100.0, 112.4, Verdict::Worse);
        assert_eq!(
            finding("[2]", &[slower], &[]),
            "[2]: worse: 12 % higher mean TTFT (112 against 100 ms)"
        );
        assert_eq!(
            finding("[2]", &[], &["all 9 metrics".to_owned()]),
            "[2]: no significant difference in all 9 metrics"
        );
        let power = change("power", Unit::Watts, 300.0, 306.0, Verdict::Higher);
        assert_eq!(
            finding("[2]", &[power], &[]),
            "[2]: 2.0 % higher power (306 against 300 W)"
        );
    }
}
