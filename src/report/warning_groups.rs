//! Groups warnings that differ only in their numbers into one sentence with the range of each number.

use super::Count;

/// Warnings that differ only in their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct WarningGroup {
    /// One sentence for all of them: `token counts disagree by 8.7 to 22.6 %: …`.
    pub text: String,
    /// The distinct messages, in order of appearance.
    pub messages: Vec<String>,
    /// Number of loads with one of these warnings; 0 if they do not come from loads.
    pub loads: usize,
}

impl WarningGroup {
    /// The sentence, followed by the number of loads, or else of messages, if there are several.
    #[must_use]
    pub fn sentence(&self) -> String {
        match (self.loads, self.messages.len()) {
            (0 | 1, 0 | 1) => self.text.clone(),
            (0 | 1, messages) => format!("{} ({} similar)", self.text, Count(messages, "warning")),
            (loads, _) => format!("{} (in {loads} loads)", self.text),
        }
    }
}

/// Groups warnings in order of first appearance. `loads` holds the warnings of each load.
#[must_use]
pub fn group_warnings(warnings: &[String], loads: &[Vec<String>]) -> Vec<WarningGroup> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for warning in warnings {
        let key = without_numbers(warning);
        match groups.iter_mut().find(|group| group.0 == key) {
            Some((_, all)) if all.contains(warning) => {}
            Some((_, all)) => all.push(warning.clone()),
            None => groups.push((key, vec![warning.clone()])),
        }
    }
    let grouped = groups.into_iter().map(|(_, all)| WarningGroup {
        text: merged(&all),
        loads: loads
            .iter()
            .filter(|load| load.iter().any(|warning| all.contains(warning)))
            .count(),
        messages: all,
    });
    grouped.collect()
}

/// The message without its numbers: equal for messages of one group.
fn without_numbers(message: &str) -> String {
    let shape = |piece: Piece| match piece {
        Piece::Text(text) => text.to_owned(),
        // A character that no message contains.
        Piece::Number(..) => "\0".to_owned(),
    };
    pieces(message).into_iter().map(shape).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece<'a> {
    /// Text shared by all messages of a group.
    Text(&'a str),
    /// A number and its original text.
    Number(&'a str, f64),
}

/// Splits a message into text and numbers. Digits within a name (`Llama-3.1-8B`, `input=512`, `0.24.0`, `p99`)
/// stay text.
fn pieces(message: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut rest, mut from) = (message, 0);
    while let Some(start) = rest[from..]
        .find(|letter: char| letter.is_ascii_digit())
        .map(|at| from + at)
    {
        let end = rest[start..]
            .find(|letter: char| !(letter.is_ascii_digit() || letter == '.' || letter == ','))
            .map_or(rest.len(), |length| start + length);
        // A full stop or comma after a number is not part of it.
        let text = rest[start..end].trim_end_matches(['.', ',']);
        let separate = rest[..start]
            .chars()
            .next_back()
            .is_none_or(|before| before == '(' || before.is_whitespace());
        let after = rest[start + text.len()..].chars().next();
        let separate = separate && after.is_none_or(|after| ".,;:)%?!".contains(after) || after.is_whitespace());
        match text.replace(',', "").parse::<f64>() {
            Ok(value) if separate => {
                pieces.extend([Piece::Text(&rest[..start]), Piece::Number(text, value)]);
                rest = &rest[start + text.len()..];
                from = 0;
            }
            _ => from = end,
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    /// The smallest and the largest number, each with its original text.
    Range((&'a str, f64), (&'a str, f64)),
}

fn parts(all: &[String]) -> Vec<Part<'_>> {
    let split: Vec<Vec<Piece>> = all.iter().map(|message| pieces(message)).collect();
    let Some(first) = split.first() else { return Vec::new() };
    let part = |(at, piece)| match piece {
        Piece::Text(text) => Part::Text(text),
        Piece::Number(text, value) => {
            let figures = split.iter().filter_map(|message| match message.get(at) {
                Some(Piece::Number(text, value)) => Some((*text, *value)),
                _ => None,
            });
            let own = (text, value);
            figures.fold(Part::Range(own, own), |range, figure| match range {
                Part::Range(low, high) if figure.1 < low.1 => Part::Range(figure, high),
                Part::Range(low, high) if figure.1 > high.1 => Part::Range(low, figure),
                range => range,
            })
        }
    };
    first.iter().copied().enumerate().map(part).collect()
}

fn merged(all: &[String]) -> String {
    let text = |part: Part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Range(low, high) if low.1 < high.1 => format!("{} to {}", low.0, high.0),
        Part::Range(low, _) => low.0.to_owned(),
    };
    parts(all).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn messages_that_differ_in_numbers_become_one_with_ranges() {
        let all = messages(&[
            "token counts disagree by 15.5 %: the engine counted 8192 tokens, the tokenizer 9,458; `p99` is of both",
            "token counts disagree by 8.7 %: the engine counted 8192 tokens, the tokenizer 8906; `p99` is of both",
            "the disk is slow",
            "token counts disagree by 22.6 %: the engine counted 8192 tokens, the tokenizer 10045; `p99` is of both",
        ]);
        let loads = [all[..2].to_vec(), all[..1].to_vec(), all[2..3].to_vec(), Vec::new()];
        let grouped = group_warnings(&all, &loads);
        assert_eq!(grouped.len(), 2);
        assert_eq!(
            grouped[0].sentence(),
            "token counts disagree by 8.7 to 22.6 %: the engine counted 8192 tokens, the tokenizer 8906 to 10045; `p99` is of both (in 2 loads)"
        );
        assert_eq!(grouped[0].messages.len(), 3);
        assert_eq!(
            (grouped[1].sentence(), grouped[1].loads),
            ("the disk is slow".to_owned(), 1)
        );
        assert!(
            group_warnings(&all, &[])[0]
                .sentence()
                .ends_with(" (3 warnings similar)")
        );
    }

    #[test]
    fn numbers_in_names_stay_text() {
        for (one, other) in [
            ("vllm 0.24.0 is old", "vllm 0.25.0 is old"),
            ("Llama-3.1-8B is slow", "Llama-3.1-70B is slow"),
            ("not at input=512", "not at input=513"),
            ("`p95` is missing", "`p99` is missing"),
            ("see http://127.0.0.1:80/", "see http://127.0.0.1:81/"),
        ] {
            assert_eq!(group_warnings(&messages(&[one, other]), &[]).len(), 2, "{one}");
        }
        assert_eq!(
            group_warnings(&messages(&["waited 3.", "waited 28.5."]), &[])[0].text,
            "waited 3 to 28.5."
        );
    }

    /// A message of a few groups, or of none.
    fn message() -> impl Strategy<Value = String> {
        prop_oneof![
            (0..40_u32, 1..40_u32).prop_map(|(some, all)| format!("{some} of {all} requests failed")),
            (0..400_u32).prop_map(|tenths| format!("late by {}.{} s, at `p{tenths}`", tenths / 10, tenths % 10)),
            "[0-9a-z .,%=-]{0,12}",
            any::<String>(),
        ]
    }

    proptest! {
        #[test]
        fn every_message_is_kept_once_and_its_numbers_are_in_the_sentence(warnings in prop::collection::vec(message(), 0..24)) {
            let all = group_warnings(&warnings, std::slice::from_ref(&warnings));
            let mut kept: Vec<&String> = all.iter().flat_map(|one| &one.messages).collect();
            let mut distinct: Vec<&String> = warnings.iter().collect();
            kept.sort();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(kept, distinct);
            for one in &all {
                prop_assert_eq!(one.loads, 1);
                if let [only] = &one.messages[..] {
                    prop_assert_eq!(&one.text, only);
                }
                let parts = parts(&one.messages);
                for message in &one.messages {
                    let pieces = pieces(message);
                    prop_assert_eq!(pieces.len(), parts.len());
                    for (piece, part) in pieces.into_iter().zip(&parts) {
                        let holds = match (piece, *part) {
                            (Piece::Text(own), Part::Text(text)) => own == text,
                            (Piece::Number(_, value), Part::Range(low, high)) => (low.1..=high.1).contains(&value),
                            _ => false,
                        };
                        prop_assert!(holds, "{message:?} in {one:?}");
                    }
                }
            }
        }
    }
}
