//! The sizes of requests that a server serves and refuses, where it states no limit itself.

use std::sync::LazyLock;

use regex::Regex;

use crate::run::Limits;

/// Refusals for a rate or a quota, which some servers send with statuses of sizes, as Groq does with 413.
static RATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)rate.?limit|quota|tokens per (?:second|minute|day)|\b[TR]P[MD]\b").expect("it parses")
});

static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d+(?:[,_]\d{3})*").expect("it parses"));

/// The sizes that a server is known to serve and to refuse.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownSizes {
    /// The smallest limits that it served.
    served: Option<Limits>,
    /// Its refusals of sizes that repeated, without lengths and names of requests.
    refusals: Vec<String>,
}

impl KnownSizes {
    /// Takes limits into account that the server served.
    pub(crate) fn add_served(&mut self, limits: Limits) {
        if self.served.is_none_or(|served| is_easier(&limits, &served)) {
            self.served = Some(limits);
        }
    }

    /// Takes a refusal into account that repeated. Returns the length that it may state.
    pub(crate) fn add_refused(&mut self, words: &str, requested: &Limits) -> Option<u64> {
        if !self.refuses(words) {
            self.refusals.push(without_numbers(words));
        }
        stated_number(words, &self.served?, requested)
    }

    /// Whether a refusal in such words repeated before.
    pub(crate) fn refuses(&self, words: &str) -> bool {
        self.refusals.contains(&without_numbers(words))
    }

    /// Whether the server served limits that are easier.
    pub(crate) fn serves_easier(&self, requested: &Limits) -> bool {
        self.served.is_some_and(|served| is_easier(&served, requested))
    }
}

/// Whether two refusals say the same, but for their numbers.
pub(crate) fn is_alike(one: &str, other: &str) -> bool {
    without_numbers(one) == without_numbers(other)
}

/// Whether a refusal is for a rate or a quota.
pub(crate) fn is_for_rate(words: &str) -> bool {
    RATE.is_match(words)
}

/// Without what may differ from one refusal to the next: lengths, and names of requests such as `req_7f3a`.
fn without_numbers(words: &str) -> String {
    let same = words
        .split_whitespace()
        .filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
    same.collect::<Vec<_>>().join(" ")
}

/// True if limits are no harder on any axis than others, and not the same.
fn is_easier(one: &Limits, other: &Limits) -> bool {
    one != other && one.input <= other.input && one.output <= other.output && one.concurrency <= other.concurrency
}

/// The largest number in a refusal's words that may be its limit on input and output together: more than was served,
/// less than was requested, and none of the lengths of the request.
fn stated_number(words: &str, served: &Limits, requested: &Limits) -> Option<u64> {
    let numbers = NUMBER.find_iter(words);
    let numbers = numbers.filter_map(|found| found.as_str().replace([',', '_'], "").parse().ok());
    let is_limit = |number: &u64| {
        (served.total..requested.total).contains(number) && *number != requested.input && *number != requested.output
    };
    numbers.filter(is_limit).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_between_what_is_served_and_what_is_refused_may_be_the_limit() {
        let number = |words: &str| stated_number(words, &Limits::new(128, 64, 1), &Limits::new(4000, 200, 1));
        assert_eq!(
            number("4000 tokens and 200 more do not fit into 4,096 (error 17)"),
            Some(4096)
        );
        assert_eq!(
            number("You passed 4000 tokens: at most 3896 with 200 of output, 4096 in all"),
            Some(4096)
        );
        assert_eq!(number("too long: 4200 of 9000"), None);
        assert_eq!(number("too long"), None);
    }

    #[test]
    fn refusals_are_alike_whatever_lengths_and_names_of_requests_they_have() {
        assert!(is_alike(
            "too long: 4,100 > 4,096 (req_7f3a)",
            "too long: 9000 > 4,096 (req_01bc)"
        ));
        assert!(!is_alike("too long: 4100", "too many: 4100"));
    }

    #[test]
    fn refusals_for_a_rate_are_not_of_size() {
        for words in [
            "Limit 6000 tokens per minute (TPM)",
            "code: rate_limit_exceeded",
            "over your quota",
        ] {
            assert!(is_for_rate(words), "{words}");
        }
        assert!(!is_for_rate("the prompt exceeds 4096 tokens, so it is not generated"));
    }
}
