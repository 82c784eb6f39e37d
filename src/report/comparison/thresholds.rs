//! Thresholds: parses them, and evaluates them on the findings of a comparison. Pure.
//!
//! A threshold is `p99_ttft_ms<=+5%`, `peak_memory<=+1GiB`, `output_throughput>=-3%`, `ttft_ms.p99<=200`,
//! `weights=±10%`, or without characters special to a shell: `p99_ttft_ms=+5%`. A limit with a sign is a change from
//! the baseline; without one it is an absolute value. After `=` the limit is the worst allowed value: `+5%` at most,
//! `-3%` at least; without a sign, on the metric's worse side. A percentage without a sign is, after `=`, the allowed
//! deterioration; one with `±` (or `+-`), the allowed difference in either direction. The form follows k6's thresholds
//! (aggregate, relation, limit); relative changes follow `hyperfine` and `critcmp`, which state them in per cent of the
//! first result.
//!
//! A relative limit ignores a difference within the uncertainty interval of either run, unless a boundary proves it: a
//! point that fitted before fails now. An absolute limit is compared with the value itself.
//!
//! A boundary is not a sample: what fitted once fits. A lower value is a loss only if a point that fitted fails now;
//! otherwise the search may have tested fewer points. An unfinished run has proven only a part: its values can still
//! change, and a limit applies only if all values that they could still take lie on one side of it.

use regex::Regex;

use super::finding::{Comparison, EFFORT, Finding, MetricVerdict, is_recommendation};
use crate::compare::{ComparisonInput, Direction, Unit};
use crate::fault::{Fault, Result};
use crate::fmt::{metric_term, with_blanks};
use crate::memory::compare::size;

const HINT: &str = "write `p99_ttft_ms<=+5%`, `output_throughput>=-3%`, `peak_memory<=+1GiB`, `p99_ttft_ms<=200ms` or `weights=±10%`, in quotes, or with `=` instead of `<=` and `>=`";

/// Error for a limit of -100 % or less.
const LOSES_EVERYTHING: &str = "a decrease of 100 % or more is impossible";

/// Alternative names of metrics.
const ALIASES: [(&str, &str); 2] = [("peak", "peak_memory"), ("frontier", "frontier *")];

/// Samples whose statistics may be written as `ttft_ms.p99`.
const SAMPLES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];

/// Name, relation, sign, number, unit. Case names contain `=`; a limit does not.
const FORM: &str = r"^(.*[^\s<>])\s*([<>]?=)\s*(±|\+-|[+\-\u{2212}])?([0-9.]+)\s*([^=0-9.+-]*)$";

/// A threshold on every metric that matches a name or pattern.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As the user wrote it.
    pub text: String,
    /// The name or pattern.
    pub(super) name: String,
    /// Whether the limit is relative to the baseline.
    pub(super) relative: bool,
    pattern: Regex,
    side: Side,
    number: f64,
    unit: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
    /// At most this far away, in either direction.
    Within,
    /// No worse: the side depends on the metric's better direction.
    NotWorse,
}

/// Whether a value is outside of these limits. Tolerates floating-point error.
pub(super) fn exceeds([low, high]: [f64; 2], value: f64) -> bool {
    let slack = |limit: f64| 1e-12 * limit.abs();
    value > high + slack(high) || value < low - slack(low)
}

impl Rule {
    /// Parses a threshold.
    ///
    /// # Errors
    ///
    /// `usage` with examples.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let wrong = |why: &str| Fault::usage(format!("invalid threshold `{text}`: {why}")).hint(HINT);
        let form = Regex::new(FORM).map_err(Fault::internal)?;
        let parts = form
            .captures(text)
            .ok_or_else(|| wrong("it is not a name, a relation and a number with a unit"))?;
        let part = |index: usize| parts.get(index).map_or("", |part| part.as_str());
        let (name, relation, sign, unit) = (part(1), part(2), part(3), part(5).trim());
        let number: f64 = part(4).parse().map_err(|_| wrong("the limit is not a number"))?;
        let negative = ["-", "\u{2212}"].contains(&sign);
        if negative && unit == "%" && number >= 100.0 {
            return Err(wrong(LOSES_EVERYTHING));
        }
        let side = match (relation, sign) {
            ("=", "±" | "+-") => Side::Within,
            (_, "±" | "+-") => return Err(wrong("a limit in both directions needs `=`")),
            ("<=", _) | ("=", "+") => Side::AtMost,
            (">=", _) => Side::AtLeast,
            _ if negative => Side::AtLeast,
            _ => Side::NotWorse,
        };
        Ok(Self {
            text: text.to_owned(),
            name: name.to_owned(),
            relative: !sign.is_empty() || (side == Side::NotWorse && unit == "%"),
            pattern: pattern(name)?,
            side,
            number: if negative { -number } else { number },
            unit: unit.to_owned(),
        })
    }

    /// Whether it applies to every metric that no other threshold names.
    pub(super) fn is_general(&self) -> bool {
        self.name == "*"
    }

    /// Whether it applies to this metric of this case, by its name or the term that tables show, or as `CASE/METRIC`.
    pub(super) fn matches(&self, case: &str, name: &str) -> bool {
        let case = with_blanks(case);
        [with_blanks(name), metric_term(name).to_owned()]
            .into_iter()
            .any(|name| self.pattern.is_match(&name) || self.pattern.is_match(&format!("{case}/{name}")))
    }

    /// Rejects a decrease by 100 % or more of a metric that is better when higher.
    ///
    /// # Errors
    ///
    /// `usage` if the threshold allows that.
    pub(super) fn check(&self, better: Option<Direction>) -> Result<()> {
        let loses = self.side == Side::NotWorse && self.relative && self.number >= 100.0;
        if loses && better == Some(Direction::More) {
            Err(Fault::usage(format!("invalid threshold `{}`: {LOSES_EVERYTHING}", self.text)).hint(HINT))
        } else {
            Ok(())
        }
    }

    /// Whether the threshold or the metric's better direction states which side is allowed.
    pub(super) fn has_side(&self, better: Option<Direction>) -> bool {
        self.side != Side::NotWorse || matches!(better, Some(Direction::More | Direction::Less))
    }

    /// The lowest and the highest value that it allows for a metric with the baseline value `before`; `None` if neither
    /// the metric nor the threshold has a worse side.
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
    ) -> Result<Option<[f64; 2]>> {
        if !self.has_side(better) {
            return Ok(None);
        }
        let first = before.filter(|_| self.relative).unwrap_or(0.0);
        let change = if self.relative && self.unit == "%" {
            self.number / 100.0 * first.abs()
        } else {
            self.number * self.factor(figure, unit)?
        };
        let (lowest, highest) = (f64::NEG_INFINITY, f64::INFINITY);
        Ok(Some(match self.side {
            Side::AtMost => [lowest, first + change],
            Side::AtLeast => [first + change, highest],
            Side::Within => [first - change, first + change],
            Side::NotWorse if better == Some(Direction::Less) => [lowest, first + change],
            // Without a sign, a percentage is the allowed deterioration.
            Side::NotWorse if self.relative => [first - change, highest],
            Side::NotWorse => [change, highest],
        }))
    }

    /// The factor that converts the limit's unit to the metric's unit.
    fn factor(&self, figure: &str, unit: Unit) -> Result<f64> {
        let written = self.unit.as_str();
        let factor = match (unit, written) {
            (Unit::Bytes, "") if self.number == 0.0 => Some(1.0),
            (Unit::Bytes, "") => None,
            (Unit::Bytes, written) => size(&format!("1{written}")).and_then(|(_, bytes)| bytes),
            (_, "") | (Unit::Milliseconds, "ms") | (Unit::Seconds, "s") | (Unit::Tokens, "tokens") => Some(1.0),
            (Unit::TokensPerSecond, "tokens/s") | (Unit::RequestsPerSecond, "requests/s") => Some(1.0),
            (Unit::Percent, "%") | (Unit::Watts, "W") | (Unit::Celsius, "C") => Some(1.0),
            (Unit::Milliseconds, "s") => Some(1e3),
            (Unit::Seconds, "ms") => Some(1e-3),
            _ => None,
        };
        factor.ok_or_else(|| {
            let hint = match (unit, written) {
                (_, "%") => format!("with a sign it is a change from the first: `{figure}<=+5%`, `{figure}>=-5%`"),
                (Unit::Bytes, _) => "give bytes with their unit: 600MiB, 13.5GiB, 14GB".to_owned(),
                _ => format!("`{figure}` is in {}", name_of(unit)),
            };
            let written = if written.is_empty() { "plain numbers" } else { written };
            Fault::usage(format!("`{}`: `{figure}` is not in {written}", self.text)).hint(hint)
        })
    }
}

fn name_of(unit: Unit) -> String {
    let name = serde_json::to_value(unit).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
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

/// Why a metric beyond its limit still passes.
const UNPROVEN: &str = "exceeds the limit, but lies within the other run's uncertainty interval";

/// Names that an error message lists.
const LISTED: usize = 8;

/// The thresholds of one comparison.
#[derive(Clone, Debug, Default)]
pub struct Thresholds {
    /// The thresholds of the command line. `*` applies to every metric that no other threshold names.
    pub rules: Vec<Rule>,
    /// Whether a metric that cannot be compared counts as exceeded.
    pub strict: bool,
}

impl Thresholds {
    /// Fails if thresholds cannot apply to the inputs: one was not measured, or only some are simulated.
    ///
    /// # Errors
    ///
    /// `usage` with the reason.
    pub fn check_inputs(&self, inputs: &[ComparisonInput]) -> Result<()> {
        if self.rules.is_empty() {
            return Ok(());
        }
        if let Some(nothing) = inputs.iter().find(|input| input.is_empty()) {
            let (title, how) = (&nothing.title, nothing.unfinished.as_ref());
            let how = how.map_or_else(String::new, |how| format!(" ({how})"));
            let why = format!("`{title}` has nothing to compare: nothing was measured in it{how}");
            return Err(Fault::usage(why).hint(format!("see `profiler show {title}`")));
        }
        if inputs.iter().any(|input| input.simulated != inputs[0].simulated) {
            let fault = Fault::usage("a threshold cannot compare a simulated with a measured run");
            return Err(fault.hint("compare two simulated or two measured runs, or leave out the thresholds"));
        }
        Ok(())
    }

    /// The findings of a comparison. A finding with several thresholds appears once for each.
    ///
    /// # Errors
    ///
    /// `usage` for a threshold on an unknown metric, on one without a worse side, or in a wrong unit.
    pub fn evaluate(&self, comparison: &Comparison) -> Result<Vec<Finding>> {
        let (general, named): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(|rule| rule.is_general());
        for rule in &named {
            check(rule, comparison)?;
        }
        let mut all = Vec::new();
        for finding in &comparison.findings {
            let mut rules = named.clone();
            rules.retain(|rule| rule.matches(&finding.case, &finding.name));
            // `*` does not apply to new metrics, the measuring effort, standard deviations and recommendations.
            let by_name_only = finding.before.is_none()
                || EFFORT.contains(&finding.name.as_str())
                || finding.name.starts_with("std_")
                || is_recommendation(&finding.name);
            if rules.is_empty() && !by_name_only {
                rules.clone_from(&general);
            }
            let mut held = Vec::new();
            for rule in rules {
                held.extend(self.apply(rule, finding)?);
            }
            if held.is_empty() {
                held.push(finding.clone());
            }
            all.append(&mut held);
        }
        let held = |one: &Finding| one.threshold.is_some() && (self.strict || one.before.and(one.after).is_some());
        if let ([], [rule, ..]) = (&named[..], &general[..])
            && !all.iter().any(held)
        {
            let message = format!("no figure is on both sides: `{}` could never be exceeded", rule.text);
            return Err(Fault::usage(message).hint("compare what has common figures, or leave out the threshold"));
        }
        Ok(all)
    }

    /// Applies a threshold to a metric; `None` if neither has a worse side.
    fn apply(&self, rule: &Rule, finding: &Finding) -> Result<Option<Finding>> {
        let bound = |before| rule.bound(&finding.name, finding.unit, finding.better, before);
        let Some(limits) = bound(finding.before)? else {
            return Ok(None);
        };
        let undecided = if self.strict {
            MetricVerdict::Exceeded
        } else {
            MetricVerdict::NotCompared
        };
        let is_exceeded = |before, after| {
            let limits = bound(before).ok().flatten();
            limits.is_some_and(|limits| exceeds(limits, after))
        };
        let after = finding.after.filter(|_| finding.before.is_some() || !rule.relative);
        let (verdict, why) = match after {
            None => (undecided, None),
            Some(after) if !is_decided(finding, after, is_exceeded) => (undecided, finding.unfinished()),
            Some(after) if !exceeds(limits, after) => (MetricVerdict::Within, None),
            Some(after) => {
                let confirmed = finding.confirms(after > limits[1]);
                if rule.relative && finding.within_interval() && !confirmed {
                    (MetricVerdict::NotSignificant, Some(UNPROVEN.to_owned()))
                } else {
                    (MetricVerdict::Exceeded, None)
                }
            }
        };
        let known = !rule.relative || finding.before.is_some();
        Ok(Some(Finding {
            threshold: Some(rule.text.clone()),
            allowed: limits.map(|limit| Some(limit).filter(|limit| known && limit.is_finite())),
            verdict,
            why,
            ..finding.clone()
        }))
    }
}

/// Whether all final values that the two inputs can still reach lie on the same side of the limit.
fn is_decided(finding: &Finding, after: f64, is_exceeded: impl Fn(Option<f64>, f64) -> bool) -> bool {
    let [befores, afters] = finding.proof.unwrap_or_default().ranges;
    let befores = befores.map_or_else(|| vec![finding.before], |range| range.map(Some).to_vec());
    let afters = afters.map_or_else(|| vec![after], |range| range.to_vec());
    let sides = befores
        .iter()
        .flat_map(|before| afters.iter().map(|after| is_exceeded(*before, *after)));
    let exceeded = sides.filter(|exceeded| *exceeded).count();
    exceeded == 0 || exceeded == befores.len() * afters.len()
}

/// Rejects a threshold on an unknown metric, or on one without a worse side.
fn check(rule: &Rule, comparison: &Comparison) -> Result<()> {
    let refuse = |why: String, hint: String| Err(Fault::usage(format!("`{}`: {why}", rule.text)).hint(hint));
    let mut matched: Vec<&Finding> = comparison.findings.iter().collect();
    matched.retain(|one| rule.matches(&one.case, &one.name));
    let Some(first) = matched.first() else {
        let name = &rule.name;
        if comparison.thin.iter().any(|(case, name)| rule.matches(case, name)) {
            let hint = "measure more requests, or set the limit on a lower percentile or the mean";
            let why = format!("`{name}` is thin: too few independent requests support it");
            return refuse(why, hint.to_owned());
        }
        return refuse(
            format!("there is no figure `{name}`"),
            nearest_names(name, &comparison.findings),
        );
    };
    let name = &first.name;
    // A pattern may match several metrics, and one with another direction may allow the limit.
    if matched.iter().all(|one| one.better == first.better) {
        rule.check(first.better)?;
    }
    if matched.iter().all(|one| !rule.has_side(one.better)) {
        return refuse(
            format!("it is unknown whether a higher or a lower `{name}` is worse"),
            "write `<=` or `>=`, or a limit with a sign".to_owned(),
        );
    }
    Ok(())
}

/// The names most similar to an unknown one, for an error hint.
fn nearest_names(wanted: &str, findings: &[Finding]) -> String {
    let figure = wanted.rsplit('/').next().unwrap_or(wanted);
    let in_cases: Vec<&str> = findings
        .iter()
        .filter(|one| one.name == figure)
        .map(|one| one.case.as_str())
        .collect();
    let all = || findings.iter().map(|one| one.name.as_str()).collect();
    let (what, mut names) = if in_cases.is_empty() {
        ("the nearest are".to_owned(), all())
    } else {
        (format!("`{figure}` is a figure of"), in_cases)
    };
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| {
        let holds = name.contains(figure) || figure.contains(name);
        (!holds, strsim::damerau_levenshtein(figure, name))
    });
    match names.len() {
        0 => "nothing that is compared has figures".to_owned(),
        all if all <= LISTED => format!("{what}: {}", names.join(", ")),
        all => format!("{what}: {} and {} more", names[..LISTED].join(", "), all - LISTED),
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
        let [low, high] = bound.unwrap().unwrap();
        assert!(low.is_finite() != high.is_finite(), "{low} to {high}");
        if high.is_finite() { (true, high) } else { (false, low) }
    }

    #[test]
    fn a_limit_in_both_directions_is_of_the_baseline() {
        for rule in ["x=±5%", "x=+-5%"] {
            let bound = Rule::parse(rule).unwrap().bound("x", MS, None, Some(-200.0));
            assert_eq!(bound.unwrap(), Some([-210.0, -190.0]));
        }
        let general = Rule::parse("*=±0%").unwrap();
        assert!(general.is_general() && general.matches("any case", "any metric"));
        let zero = general.bound("x", MS, None, Some(0.0)).unwrap().unwrap();
        assert!(exceeds(zero, 1e-9) && !exceeds(zero, 0.0));
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
        assert!(on("total_used<=+1GiB", "", "physical") && on("physical<=+1GiB", "", "physical"));
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
        let neutral = Rule::parse("x=5%")
            .unwrap()
            .bound("x", MS, Some(Direction::Neutral), Some(1.0));
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
