//! A threshold as the user writes it: `p99_ttft_ms<=+5%`, `peak_memory<=+1GiB`, `output_throughput>=-3%`, `ttft_ms.p99<=200`, and without a sign that a shell
//! would take for its own: `p99_ttft_ms=+5%`.
//!
//! A limit with a sign is a change against the first; without one it is the figure itself. After `=` a limit is what the figure may be at worst: +5 % at most, -3 % at
//! least, and without a sign whichever side of the figure is the worse one; hundredths without a sign are after `=` how much worse than the first it may be. The form follows k6's thresholds (an aggregate, a relation, a limit), and what is relative
//! to an earlier result follows `hyperfine` and `critcmp`, which give changes in hundredths of the first.

use regex::Regex;

use crate::compare::{Direction, Unit};
use crate::fault::{Fault, Result};
use crate::memory::compare::size;

const HINT: &str = "write `p99_ttft_ms<=+5%`, `output_throughput>=-3%`, `peak_memory<=+1GiB` or `p99_ttft_ms<=200ms`, in quotes, or with `=` instead of `<=` and `>=`";

/// Why a fall may not be allowed to be that deep.
const NOTHING_LEFT: &str = "a fall of 100 % leaves nothing, and none is deeper";

/// What people call figures that have another name here.
const ALSO: [(&str, &str); 2] = [("peak", "peak_memory"), ("frontier", "frontier *")];

/// Samples of which a figure may be written as `ttft_ms.p99`.
const SAMPLES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];

/// A threshold on every figure of a name.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As the user wrote it.
    pub text: String,
    name: String,
    pattern: Regex,
    side: Side,
    limit: Limit,
}

/// Which side of the limit is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
    /// Whichever is the better side of the figure.
    NotWorse,
}

#[derive(Clone, Debug, PartialEq)]
enum Limit {
    /// Hundredths of the first, with their sign.
    Percent(f64),
    /// A change in the figure's unit.
    Change(Quantity),
    /// The figure itself.
    Value(Quantity),
}

/// A number with a unit, if one was written.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    number: f64,
    unit: String,
}

/// A limit for one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// Whether the figure may be at most this; else at least.
    pub(super) at_most: bool,
    /// The limit, in the figure's unit.
    pub(super) value: f64,
    /// Whether it comes from the first.
    pub(super) relative: bool,
}

impl Bound {
    /// Whether a figure is beyond it.
    pub(super) fn breaks(self, value: f64) -> bool {
        // What arithmetic on floats adds is nobody's regression.
        let slack = 1e-12 * self.value.abs();
        if self.at_most {
            value > self.value + slack
        } else {
            value < self.value - slack
        }
    }
}

impl Rule {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// `usage` with what can be written.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| Fault::usage(format!("`{text}` is no threshold: {why}")).hint(HINT);
        // Names of cases have `=` in them; a limit has none.
        let (left, limit) = text
            .rsplit_once('=')
            .ok_or_else(|| wrong("it has none of `<=`, `>=` and `=`".to_owned()))?;
        let (name, side) = match left.strip_suffix('<').or_else(|| left.strip_suffix('≤')) {
            Some(name) => (name, Side::AtMost),
            None => match left.strip_suffix('>') {
                Some(name) => (name, Side::AtLeast),
                None => (left, Side::NotWorse),
            },
        };
        let (name, limit) = (name.trim(), limit.trim());
        if name.is_empty() {
            return Err(wrong("it names no figure".to_owned()));
        }
        let signed = limit.starts_with(['+', '-', '\u{2212}']);
        let limit = limit.replace('\u{2212}', "-");
        let split = limit.find(|letter: char| !(letter.is_ascii_digit() || "+-.".contains(letter)));
        let (number, unit) = limit.split_at(split.unwrap_or(limit.len()));
        let number: f64 = number
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| wrong(format!("`{limit}` is no number with a unit")))?;
        let unit = unit.trim().to_owned();
        let quantity = Quantity { number, unit };
        let percent = quantity.unit == "%";
        if percent && limit.starts_with('-') && number <= -100.0 {
            return Err(wrong(NOTHING_LEFT.to_owned()));
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

    /// At most so many hundredths worse, whatever it is.
    pub(super) fn default_of(percent: f64) -> Result<Self> {
        Ok(Self {
            text: format!("--max-regression {percent}%"),
            name: "*".to_owned(),
            pattern: pattern("*")?,
            side: Side::NotWorse,
            limit: Limit::Percent(percent),
        })
    }

    /// The name or pattern that it is on.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is on that figure of that case: by its name alone, or as `CASE/NAME`.
    pub(super) fn on(&self, case: &str, name: &str) -> bool {
        let name = spaced(name);
        self.pattern.is_match(&name) || self.pattern.is_match(&format!("{}/{name}", spaced(case)))
    }

    /// Whether nothing can be said without the first.
    pub(super) fn relative(&self) -> bool {
        !matches!(self.limit, Limit::Value(_))
    }

    /// Refuses a fall of everything, on a figure that is better the more it is.
    ///
    /// # Errors
    ///
    /// `usage` where that is what it allows.
    pub(super) fn check(&self, better: Option<Direction>) -> Result<()> {
        match (self.side, better, &self.limit) {
            (Side::NotWorse, Some(Direction::More), Limit::Percent(percent)) if *percent >= 100.0 => {
                Err(Fault::usage(format!("`{}` is no threshold: {NOTHING_LEFT}", self.text)).hint(HINT))
            }
            _ => Ok(()),
        }
    }

    /// Whether it says itself which side is allowed.
    pub(super) fn sided(&self) -> bool {
        self.side != Side::NotWorse
    }

    /// The limit of a figure, `before` being what the first has; none where the figure has no worse side and the threshold names none.
    ///
    /// # Errors
    ///
    /// `usage` for a limit in a unit that the figure does not have.
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
            // Without a side, hundredths are how much worse it may be.
            Limit::Percent(percent) => {
                let worse = if self.sided() || at_most { *percent } else { -percent };
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

    /// A quantity in the unit of the figure.
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
                (_, "%") => format!("with a sign it is a change against the first: `{figure}<=+5%`, `{figure}>=-5%`"),
                (Unit::Bytes, _) => "give bytes with their unit: 600MiB, 13.5GiB, 14GB".to_owned(),
                _ => format!("`{figure}` is in {}", name_of(unit)),
            };
            Fault::usage(format!(
                "`{}`: `{figure}` is no figure in {}",
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

/// Names with `*` for anything and `?` for one letter.
fn pattern(name: &str) -> Result<Regex> {
    let (case, figure) = match name.rsplit_once('/') {
        Some((case, figure)) => (format!("{case}/"), figure),
        None => (String::new(), name),
    };
    let figure = match ALSO.iter().find(|(also, _)| *also == figure) {
        Some((_, known)) => (*known).to_owned(),
        None => spelled(figure),
    };
    let text = regex::escape(&spaced(&format!("{case}{figure}")))
        .replace("\\*", ".*")
        .replace("\\?", ".");
    Regex::new(&format!("^(?:{text})$")).map_err(|error| Fault::usage(format!("`{name}`: {error}")))
}

/// Blanks and underscores are the same: a shell takes a blank for the end of a word.
fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// `ttft_ms.p99` is `p99_ttft_ms` here, as in vLLM's bench; and `p50` its median.
fn spelled(figure: &str) -> String {
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
        let on = |rule: &str, case: &str, name: &str| Rule::parse(rule).unwrap().on(case, name);
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
                let _ = rule.on("case", &text);
            }
        }
    }
}
