//! Parses a threshold: `p99_ttft_ms<=+5%`, `peak_memory<=+1GiB`, `output_throughput>=-3%`, `ttft_ms.p99<=200`,
//! or without characters special to a shell: `p99_ttft_ms=+5%`.
//!
//! A limit with a sign is a change from the baseline; without one it is an absolute value. After `=` the limit
//! is the worst allowed value: `+5%` at most, `-3%` at least; without a sign, on the metric's worse side. A
//! percentage without a sign is, after `=`, the allowed deterioration. The form follows k6's thresholds
//! (aggregate, relation, limit); relative changes follow `hyperfine` and `critcmp`, which state them in per
//! cent of the first result.

use regex::Regex;

use crate::compare::{Direction, Unit};
use crate::fault::{Fault, Result};
use crate::fmt::with_blanks;
use crate::memory::compare::size;

const HINT: &str = "write `p99_ttft_ms<=+5%`, `output_throughput>=-3%`, `peak_memory<=+1GiB` or `p99_ttft_ms<=200ms`, in quotes, or with `=` instead of `<=` and `>=`";

/// Error for a limit of -100 % or less.
const LOSES_EVERYTHING: &str = "a decrease of 100 % or more is impossible";

/// Alternative names of metrics.
const ALIASES: [(&str, &str); 2] = [("peak", "peak_memory"), ("frontier", "frontier *")];

/// Samples whose statistics may be written as `ttft_ms.p99`.
const SAMPLES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];

/// A threshold on every metric that matches a name or pattern.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As the user wrote it.
    pub text: String,
    name: String,
    pattern: Regex,
    side: Side,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
    /// Whichever side is better for the metric.
    NotWorse,
}

#[derive(Clone, Debug, PartialEq)]
enum Limit {
    /// A signed change in per cent of the baseline.
    Percent(f64),
    /// A change in the metric's unit.
    Change(Quantity),
    /// An absolute value.
    Value(Quantity),
}

/// A number with an optional unit.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    number: f64,
    unit: String,
}

/// The limit of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// Upper bound, else lower bound.
    pub(super) at_most: bool,
    /// In the metric's unit.
    pub(super) value: f64,
    /// Whether it depends on the baseline.
    pub(super) relative: bool,
}

impl Bound {
    pub(super) fn is_exceeded_by(self, value: f64) -> bool {
        // Tolerates floating-point error.
        let slack = 1e-12 * self.value.abs();
        if self.at_most {
            value > self.value + slack
        } else {
            value < self.value - slack
        }
    }
}

impl Rule {
    /// Parses a threshold.
    ///
    /// # Errors
    ///
    /// `usage` with examples.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| Fault::usage(format!("invalid threshold `{text}`: {why}")).hint(HINT);
        // Case names contain `=`; a limit does not.
        let (left, limit) = text
            .rsplit_once('=')
            .ok_or_else(|| wrong("it has none of `<=`, `>=`, `=`".to_owned()))?;
        let (name, side) = match left.strip_suffix('<').or_else(|| left.strip_suffix('≤')) {
            Some(name) => (name, Side::AtMost),
            None => match left.strip_suffix('>') {
                Some(name) => (name, Side::AtLeast),
                None => (left, Side::NotWorse),
            },
        };
        let (name, limit) = (name.trim(), limit.trim());
        if name.is_empty() {
            return Err(wrong("the name of the figure is missing".to_owned()));
        }
        let signed = limit.starts_with(['+', '-', '\u{2212}']);
        let limit = limit.replace('\u{2212}', "-");
        let split = limit.find(|letter: char| !(letter.is_ascii_digit() || "+-.".contains(letter)));
        let (number, unit) = limit.split_at(split.unwrap_or(limit.len()));
        let number: f64 = number
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| wrong(format!("`{limit}` is not a number with a unit")))?;
        let unit = unit.trim().to_owned();
        let quantity = Quantity { number, unit };
        let percent = quantity.unit == "%";
        if percent && limit.starts_with('-') && number <= -100.0 {
            return Err(wrong(LOSES_EVERYTHING.to_owned()));
        }
        let (side, limit) = match (side, signed) {
            (Side::NotWorse, true) => {
                let side = if number < 0.0 || limit.starts_with('-') {
                    Side::AtLeast
                } else {
                    Side::AtMost
                };
                (side, change(quantity, percent))
            }
            (Side::NotWorse, false) if percent => (side, Limit::Percent(number)),
            (side, true) => (side, change(quantity, percent)),
            (side, false) => (side, Limit::Value(quantity)),
        };
        Ok(Self {
            text: text.trim().to_owned(),
            pattern: pattern(name)?,
            name: name.to_owned(),
            side,
            limit,
        })
    }

    /// The threshold of `--max-regression`.
    pub(super) fn max_regression(percent: f64) -> Result<Self> {
        Ok(Self {
            text: format!("--max-regression {percent}%"),
            name: "*".to_owned(),
            pattern: pattern("*")?,
            side: Side::NotWorse,
            limit: Limit::Percent(percent),
        })
    }

    /// The name or pattern.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it applies to this metric of this case, by name or as `CASE/METRIC`.
    pub(super) fn matches(&self, case: &str, name: &str) -> bool {
        let name = with_blanks(name);
        self.pattern.is_match(&name) || self.pattern.is_match(&format!("{}/{name}", with_blanks(case)))
    }

    /// Whether the limit depends on the baseline.
    pub(super) fn relative(&self) -> bool {
        !matches!(self.limit, Limit::Value(_))
    }

    /// Rejects a decrease by 100 % or more of a metric that is better when higher.
    ///
    /// # Errors
    ///
    /// `usage` if the threshold allows that.
    pub(super) fn check(&self, better: Option<Direction>) -> Result<()> {
        match (self.side, better, &self.limit) {
            (Side::NotWorse, Some(Direction::More), Limit::Percent(percent)) if *percent >= 100.0 => {
                Err(Fault::usage(format!("invalid threshold `{}`: {LOSES_EVERYTHING}", self.text)).hint(HINT))
            }
            _ => Ok(()),
        }
    }

    /// Whether the threshold itself states which side is allowed.
    pub(super) fn has_side(&self) -> bool {
        self.side != Side::NotWorse
    }

    /// The limit for a metric with the baseline value `before`; `None` if neither the metric nor the threshold
    /// has a worse side.
    ///
    /// # Errors
    ///
    /// `usage` for a limit in a unit that the metric does not have.
    pub(super) fn bound(
        &self,
        figure: &str,
        unit: Unit,
        better: Option<Direction>,
        before: Option<f64>,
    ) -> Result<Option<Bound>> {
        let at_most = match (self.side, better) {
            (Side::AtMost, _) | (Side::NotWorse, Some(Direction::Less)) => true,
            (Side::AtLeast, _) | (Side::NotWorse, Some(Direction::More)) => false,
            (Side::NotWorse, Some(Direction::Neutral) | None) => return Ok(None),
        };
        let first = before.unwrap_or(0.0);
        let value = match &self.limit {
            // Without an explicit side, the percentage is the allowed deterioration.
            Limit::Percent(percent) => {
                let worse = if self.has_side() || at_most { *percent } else { -percent };
                first + worse / 100.0 * first.abs()
            }
            Limit::Change(quantity) => first + self.convert(quantity, figure, unit)?,
            Limit::Value(quantity) => self.convert(quantity, figure, unit)?,
        };
        Ok(Some(Bound {
            at_most,
            value,
            relative: self.relative(),
        }))
    }

    /// Converts a quantity to the metric's unit.
    fn convert(&self, quantity: &Quantity, figure: &str, unit: Unit) -> Result<f64> {
        let written = quantity.unit.as_str();
        let factor = match (unit, written) {
            (Unit::Bytes, "") if quantity.number == 0.0 => Some(1.0),
            (Unit::Bytes, "") => None,
            (Unit::Bytes, written) => size(&format!("1{written}")).and_then(|(_, bytes)| bytes),
            (_, "") | (Unit::Milliseconds, "ms") | (Unit::Seconds, "s") | (Unit::Tokens, "tokens") => Some(1.0),
            (Unit::TokensPerSecond, "tokens/s") | (Unit::RequestsPerSecond, "requests/s") => Some(1.0),
            (Unit::Percent, "%") | (Unit::Watts, "W") | (Unit::Celsius, "C") => Some(1.0),
            (Unit::Milliseconds, "s") => Some(1e3),
            (Unit::Seconds, "ms") => Some(1e-3),
            _ => None,
        };
        factor.map(|factor| factor * quantity.number).ok_or_else(|| {
            let hint = match (unit, written) {
                (_, "%") => format!("with a sign it is a change from the first: `{figure}<=+5%`, `{figure}>=-5%`"),
                (Unit::Bytes, _) => "give bytes with their unit: 600MiB, 13.5GiB, 14GB".to_owned(),
                _ => format!("`{figure}` is in {}", name_of(unit)),
            };
            Fault::usage(format!(
                "`{}`: `{figure}` is not in {}",
                self.text,
                if written.is_empty() { "plain numbers" } else { written }
            ))
            .hint(hint)
        })
    }
}

fn change(quantity: Quantity, percent: bool) -> Limit {
    if percent {
        Limit::Percent(quantity.number)
    } else {
        Limit::Change(quantity)
    }
}

fn name_of(unit: Unit) -> String {
    serde_json::to_value(unit)
        .ok()
        .and_then(|unit| unit.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Compiles a name with the wildcards `*` and `?`. Underscores match blanks,
/// so that names need no quoting in a shell.
fn pattern(name: &str) -> Result<Regex> {
    let (case, figure) = match name.rsplit_once('/') {
        Some((case, figure)) => (format!("{case}/"), figure),
        None => (String::new(), name),
    };
    let figure = match ALIASES.iter().find(|(also, _)| *also == figure) {
        Some((_, known)) => (*known).to_owned(),
        None => canonical_name(figure),
    };
    let text = regex::escape(&with_blanks(&format!("{case}{figure}")))
        .replace("\\*", ".*")
        .replace("\\?", ".");
    Regex::new(&format!("^(?:{text})$")).map_err(|error| Fault::usage(format!("`{name}`: {error}")))
}

/// `ttft_ms.p99` becomes `p99_ttft_ms`, the name in vLLM's bench; `p50` becomes `median`.
fn canonical_name(figure: &str) -> String {
    match figure.split_once('.') {
        Some((sample, statistic)) if SAMPLES.contains(&sample) => {
            let statistic = if statistic == "p50" { "median" } else { statistic };
            format!("{statistic}_{sample}")
        }
        _ => figure.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Unit = Unit::Milliseconds;

    #[track_caller]
    fn bound(rule: &str, unit: Unit, better: Direction, before: f64) -> (bool, f64) {
        let bound = Rule::parse(rule).unwrap().bound("x", unit, Some(better), Some(before));
        let bound = bound.unwrap().unwrap();
        (bound.at_most, bound.value)
    }

    #[test]
    fn a_sign_is_a_change_and_none_is_the_figure() {
        use Direction::{Less, More};
        assert_eq!(bound("x<=+5%", MS, Less, 200.0), (true, 210.0));
        assert_eq!(bound("x <= 200", MS, Less, 7.0), (true, 200.0));
        assert_eq!(bound("x<=0.2s", MS, Less, 7.0), (true, 200.0));
        assert_eq!(bound("x>=-3%", Unit::TokensPerSecond, More, 100.0), (false, 97.0));
        assert_eq!(bound("x<=+1GiB", Unit::Bytes, Less, 0.0), (true, 1_073_741_824.0));
        assert_eq!(bound("x=+5%", MS, Less, 200.0), (true, 210.0));
        assert_eq!(bound("x=-3%", Unit::TokensPerSecond, More, 100.0), (false, 97.0));
        assert_eq!(bound("x=-0", Unit::Tokens, More, 100.0), (false, 100.0));
        assert_eq!(bound("x=5%", MS, Less, 200.0), (true, 210.0), "5 % worse");
        assert_eq!(bound("x=5%", Unit::Tokens, More, 200.0), (false, 190.0), "5 % worse");
        assert_eq!(bound("x=200", MS, Less, 7.0), (true, 200.0));
        assert_eq!(bound("x>=80%", Unit::Percent, More, 7.0), (false, 80.0));
        assert_eq!(bound("x<=+5%", MS, Less, -100.0), (true, -95.0));
    }

    #[test]
    fn names_are_those_of_the_comparison_or_of_a_load() {
        let on = |rule: &str, case: &str, name: &str| Rule::parse(rule).unwrap().matches(case, name);
        assert!(on("ttft_ms.p99<=200", "", "p99_ttft_ms") && on("itl_ms.p50<=1", "", "median_itl_ms"));
        assert!(on("peak<=+1GiB", "", "peak_memory") && on("frontier>=-2%", "boundary", "frontier input"));
        let case = "concurrency=64 input=512";
        assert!(on("concurrency=64 input=512/p99_ttft_ms<=200", case, "p99_ttft_ms"));
        assert!(!on("concurrency=6 input=512/p99_ttft_ms<=200", case, "p99_ttft_ms"));
        assert!(on("*=64*/ttft_ms.*=5%", case, "p99_ttft_ms"));
        assert!(on("recommended_input>=-5%", "boundary", "recommended input"));
        assert!(on("boundary/recommended input>=-5%", "boundary", "recommended input"));
        assert!(on("p99 ttft ms<=1", case, "p99_ttft_ms"));
        assert!(!on("ttft_ms<=1", case, "p99_ttft_ms") && on("*ttft_ms<=1", case, "p99_ttft_ms"));
        assert!(on(
            "largest input + output that fits>=-1%",
            "boundary",
            "largest input + output that fits"
        ));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can_be_written() {
        for text in [
            "x=-1000%", "x>=-100%", "x", "x<5", "<=5", "x<=", "x<=five", "x<=+-5%", "x<=NaN", "x<=inf", "",
        ] {
            let fault = Rule::parse(text).unwrap_err();
            assert!(fault.hint.unwrap().contains("p99_ttft_ms<=+5%"), "{text}");
        }
        let unfit = |rule: &str, unit| {
            Rule::parse(rule)
                .unwrap()
                .bound("x", unit, None, Some(1.0))
                .unwrap_err()
        };
        assert!(unfit("x<=5%", MS).hint.unwrap().contains("x<=+5%"));
        assert!(unfit("x<=+1", Unit::Bytes).hint.unwrap().contains("GiB"));
        assert!(unfit("x<=3GiB", MS).hint.unwrap().contains("in ms"));
        let deep = Rule::parse("x=1000%").unwrap();
        assert!(deep.check(Some(Direction::More)).is_err() && deep.check(Some(Direction::Less)).is_ok());
        let neutral = Rule::parse("x=5%").unwrap();
        let neutral = neutral.bound("x", MS, Some(Direction::Neutral), Some(1.0));
        assert_eq!(neutral.unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_text_ends_it_otherwise_than_with_a_fault(text in ".{0,40}") {
            if let Ok(rule) = Rule::parse(&text) {
                let _ = rule.bound("x", Unit::Bytes, Some(Direction::Less), Some(1.0));
                let _ = rule.matches("case", &text);
            }
        }
    }
}
