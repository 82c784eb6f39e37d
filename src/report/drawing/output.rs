//! What the plots of scripts have in common: a name, a description in words, a table.

use crate::fault::{Fault, Result};
use crate::report::plot::{Entry, Plot, Sheet};

/// Maximum number of rows of the table beside a plot.
const ROWS: usize = 500;

/// A plot of a script: data for the report, and text for the terminal.
#[derive(Clone, Debug)]
pub struct ScriptPlot {
    /// The data.
    pub plot: Plot,
    /// The text.
    pub text: String,
    /// Whether the run keeps the plot.
    pub keep: bool,
}

/// The name of a plot: the given one, or a slug of its title.
///
/// # Errors
///
/// `usage` for a name with characters other than `a-z`, `0-9` and `-`.
pub(super) fn plot_name(given: Option<String>, title: &str) -> Result<String> {
    let allowed = |letter: char| matches!(letter, 'a'..='z' | '0'..='9');
    if let Some(name) = given {
        let valid = !name.is_empty() && name.chars().all(|letter| allowed(letter) || letter == '-');
        let fault = || Fault::usage(format!("a picture cannot be named `{name}`"));
        return match valid {
            true => Ok(name),
            false => Err(fault().hint("use only a-z, 0-9 and -")),
        };
    }
    let letters = title.to_lowercase();
    let words: Vec<&str> = letters
        .split(|letter| !allowed(letter))
        .filter(|word| !word.is_empty())
        .collect();
    Ok(if words.is_empty() {
        "picture".to_owned()
    } else {
        words.join("-")
    })
}

/// The description of a plot: the given one, or its title and a sentence about each series.
pub(super) fn description(given: String, title: &str, sentences: &[String]) -> String {
    match given.is_empty() {
        true => format!("{title}. {}", sentences.join(" ")).trim_end().to_owned(),
        false => given,
    }
}

/// Describes a series by its lowest and highest value.
pub(super) fn sentence(name: &str, points: &[(String, f64)]) -> String {
    let name = if name.is_empty() { "It" } else { name };
    let lowest = points.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let highest = points.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    match (lowest, highest) {
        (Some(low), Some(high)) if points.len() > 1 => {
            format!(
                "{name} is {} at {} (minimum) and {} at {} (maximum).",
                format_number(low.1),
                low.0,
                format_number(high.1),
                high.0
            )
        }
        (Some(only), _) => format!("{name} is {} at {}.", format_number(only.1), only.0),
        _ => format!("{name} has no values."),
    }
}

/// Formats a number with about three digits.
pub(super) fn format_number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A table of the values; empty if it would be too long.
pub(super) fn limited_table(columns: Vec<String>, rows: Vec<Vec<Entry>>) -> Sheet {
    if rows.len() > ROWS {
        return Sheet::default();
    }
    Sheet {
        title: String::new(),
        columns,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_gives_a_name() {
        assert_eq!(
            plot_name(None, "Throughput & latency, p95").unwrap(),
            "throughput-latency-p95"
        );
        assert_eq!(plot_name(None, "…").unwrap(), "picture");
        assert_eq!(plot_name(Some("mine-2".into()), "x").unwrap(), "mine-2");
        assert!(plot_name(Some("../x".into()), "x").is_err());
    }

    #[test]
    fn a_series_is_described_in_a_sentence() {
        let points = [("1".to_owned(), 60.0), ("64".to_owned(), 1833.25)];
        assert_eq!(
            sentence("vllm", &points),
            "vllm is 60 at 1 (minimum) and 1833 at 64 (maximum)."
        );
        assert_eq!(sentence("", &[]), "It has no values.");
    }
}
