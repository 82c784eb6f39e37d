//! What every picture of a script has beside its marks: a name, words for whoever cannot see it, its figures as a table and at its places.

use crate::fault::{Fault, Result};
use crate::report::plot::{Entry, Plot, Sheet};

/// Rows of the table beside a picture at most: a longer one is read by nobody.
const ROWS: usize = 500;

/// A picture drawn: as data for the report, and as a text for the terminal.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The picture.
    pub plot: Plot,
    /// The text.
    pub text: String,
    /// Whether the run keeps the picture.
    pub keep: bool,
}

/// The name of a picture: the one given, or its title in small letters.
///
/// # Errors
///
/// `usage` for a name of other letters than `a-z`, `0-9` and `-`.
pub(super) fn name(given: Option<String>, title: &str) -> Result<String> {
    let plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9');
    if let Some(name) = given {
        let fine = !name.is_empty() && name.chars().all(|letter| plain(letter) || letter == '-');
        let fault = || Fault::usage(format!("a picture cannot be named `{name}`"));
        return match fine {
            true => Ok(name),
            false => Err(fault().hint("a name is of a-z, 0-9 and -")),
        };
    }
    let letters = title.to_lowercase();
    let words: Vec<&str> = letters
        .split(|letter| !plain(letter))
        .filter(|word| !word.is_empty())
        .collect();
    Ok(if words.is_empty() {
        "picture".to_owned()
    } else {
        words.join("-")
    })
}

/// What a picture says in words: its title, and a sentence of each series.
pub(super) fn words(given: String, title: &str, sentences: &[String]) -> String {
    match given.is_empty() {
        true => format!("{title}. {}", sentences.join(" ")).trim_end().to_owned(),
        false => given,
    }
}

/// A sentence of a series: from where to where it goes, and its highest and lowest values.
pub(super) fn sentence(name: &str, points: &[(String, f64)]) -> String {
    let name = if name.is_empty() { "It" } else { name };
    let lowest = points.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let highest = points.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    match (lowest, highest) {
        (Some(low), Some(high)) if points.len() > 1 => {
            format!(
                "{name} is {} at {} at the least, {} at {} at the most.",
                figure(low.1),
                low.0,
                figure(high.1),
                high.0
            )
        }
        (Some(only), _) => format!("{name} is {} at {}.", figure(only.1), only.0),
        _ => format!("{name} has no values."),
    }
}

/// A number in some three digits.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A table of the figures; none where it would be too long.
pub(super) fn sheet(columns: Vec<String>, rows: Vec<Vec<Entry>>) -> Sheet {
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
            name(None, "Throughput & latency, p95").unwrap(),
            "throughput-latency-p95"
        );
        assert_eq!(name(None, "…").unwrap(), "picture");
        assert_eq!(name(Some("mine-2".into()), "x").unwrap(), "mine-2");
        assert!(name(Some("../x".into()), "x").is_err());
    }

    #[test]
    fn a_series_is_told_in_a_sentence() {
        let points = [("1".to_owned(), 60.0), ("64".to_owned(), 1833.25)];
        assert_eq!(
            sentence("vllm", &points),
            "vllm is 60 at 1 at the least, 1833 at 64 at the most."
        );
        assert_eq!(sentence("", &[]), "It has no values.");
    }
}
