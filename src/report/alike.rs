//! Warnings of one kind as one sentence: the words that they share, with the range of the figures in which they differ. Nothing is lost: each
//! message stays beside the sentence.

use super::Count;

/// Messages that differ in figures alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Alike {
    /// One sentence for all of them: `token counts disagree by 8.7 to 22.6 %: …`.
    pub words: String,
    /// The different messages, in the order in which they were told.
    pub all: Vec<String>,
    /// How many loads told one of them; none where they are not of loads.
    pub loads: usize,
}

impl Alike {
    /// The sentence, with how many loads it concerns, or how many messages it stands for, where these are several.
    #[must_use]
    pub fn sentence(&self) -> String {
        match (self.loads, self.all.len()) {
            (0 | 1, 0 | 1) => self.words.clone(),
            (0 | 1, messages) => format!("{} ({} alike)", self.words, Count(messages, "warning")),
            (loads, _) => format!("{} (in {loads} loads)", self.words),
        }
    }
}

/// Warnings by their kinds, the kind that was told first first. `loads` has the warnings of each load.
#[must_use]
pub fn alike(warnings: &[String], loads: &[Vec<String>]) -> Vec<Alike> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for warning in warnings {
        let kind = kind(warning);
        match kinds.iter_mut().find(|known| known.0 == kind) {
            Some((_, all)) if all.contains(warning) => {}
            Some((_, all)) => all.push(warning.clone()),
            None => kinds.push((kind, vec![warning.clone()])),
        }
    }
    let told = kinds.into_iter().map(|(_, all)| Alike {
        words: together(&all),
        loads: loads
            .iter()
            .filter(|load| load.iter().any(|warning| all.contains(warning)))
            .count(),
        all,
    });
    told.collect()
}

/// A message without its figures: equal for messages of one kind.
fn kind(message: &str) -> String {
    let shape = |piece: Piece| match piece {
        Piece::Words(words) => words.to_owned(),
        // No message holds it.
        Piece::Figure(..) => "\0".to_owned(),
    };
    pieces(message).into_iter().map(shape).collect()
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece<'a> {
    /// What messages of one kind share.
    Words(&'a str),
    /// A figure, as it was written.
    Figure(&'a str, f64),
}

/// A message as words and figures in turn. A number within a name (`Llama-3.1-8B`, `input=512`, `0.24.0`, `p99`) is a part of the words.
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
        // A full stop or a comma behind a number is not of it.
        let text = rest[start..end].trim_end_matches(['.', ',']);
        let apart = rest[..start]
            .chars()
            .next_back()
            .is_none_or(|before| before == '(' || before.is_whitespace());
        let after = rest[start + text.len()..].chars().next();
        let apart = apart && after.is_none_or(|after| ".,;:)%?!".contains(after) || after.is_whitespace());
        match text.replace(',', "").parse::<f64>() {
            Ok(value) if apart => {
                pieces.extend([Piece::Words(&rest[..start]), Piece::Figure(text, value)]);
                rest = &rest[start + text.len()..];
                from = 0;
            }
            _ => from = end,
        }
    }
    pieces.push(Piece::Words(rest));
    pieces
}

/// A part of what stands for several messages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part<'a> {
    /// What all of them say.
    Words(&'a str),
    /// The least and the greatest of their figures, as each was written.
    Range((&'a str, f64), (&'a str, f64)),
}

/// Messages of one kind, part by part.
fn parts(all: &[String]) -> Vec<Part<'_>> {
    let split: Vec<Vec<Piece>> = all.iter().map(|message| pieces(message)).collect();
    let Some(first) = split.first() else { return Vec::new() };
    let part = |(at, piece)| match piece {
        Piece::Words(words) => Part::Words(words),
        Piece::Figure(text, value) => {
            let figures = split.iter().filter_map(|message| match message.get(at) {
                Some(Piece::Figure(text, value)) => Some((*text, *value)),
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

/// Messages of one kind as one sentence.
fn together(all: &[String]) -> String {
    let text = |part: Part| match part {
        Part::Words(words) => words.to_owned(),
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
    fn messages_that_differ_in_figures_are_one_with_the_range_of_each() {
        let all = messages(&[
            "token counts disagree by 15.5 %: the engine counted 8192 tokens, the tokenizer 9,458; `p99` is of both",
            "token counts disagree by 8.7 %: the engine counted 8192 tokens, the tokenizer 8906; `p99` is of both",
            "the disk is slow",
            "token counts disagree by 22.6 %: the engine counted 8192 tokens, the tokenizer 10045; `p99` is of both",
        ]);
        let loads = [all[..2].to_vec(), all[..1].to_vec(), all[2..3].to_vec(), Vec::new()];
        let told = alike(&all, &loads);
        assert_eq!(told.len(), 2);
        assert_eq!(
            told[0].sentence(),
            "token counts disagree by 8.7 to 22.6 %: the engine counted 8192 tokens, the tokenizer 8906 to 10045; `p99` is of both (in 2 loads)"
        );
        assert_eq!(told[0].all.len(), 3);
        assert_eq!((told[1].sentence(), told[1].loads), ("the disk is slow".to_owned(), 1));
        assert!(alike(&all, &[])[0].sentence().ends_with(" (3 warnings alike)"));
    }

    #[test]
    fn what_is_a_name_is_no_figure() {
        for (one, other) in [
            ("vllm 0.24.0 is old", "vllm 0.25.0 is old"),
            ("Llama-3.1-8B is slow", "Llama-3.1-70B is slow"),
            ("not at input=512", "not at input=513"),
            ("`p95` is missing", "`p99` is missing"),
            ("see http://127.0.0.1:80/", "see http://127.0.0.1:81/"),
        ] {
            assert_eq!(alike(&messages(&[one, other]), &[]).len(), 2, "{one}");
        }
        assert_eq!(
            alike(&messages(&["waited 3.", "waited 28.5."]), &[])[0].words,
            "waited 3 to 28.5."
        );
    }

    /// A message of a few kinds, or of none.
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
        fn every_message_is_kept_once_and_its_figures_lie_in_the_sentence(told in prop::collection::vec(message(), 0..24)) {
            let all = alike(&told, std::slice::from_ref(&told));
            let mut kept: Vec<&String> = all.iter().flat_map(|one| &one.all).collect();
            let mut distinct: Vec<&String> = told.iter().collect();
            kept.sort();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(kept, distinct);
            for one in &all {
                prop_assert_eq!(one.loads, 1);
                if let [only] = &one.all[..] {
                    prop_assert_eq!(&one.words, only);
                }
                let parts = parts(&one.all);
                for message in &one.all {
                    let pieces = pieces(message);
                    prop_assert_eq!(pieces.len(), parts.len());
                    for (piece, part) in pieces.into_iter().zip(&parts) {
                        let holds = match (piece, *part) {
                            (Piece::Words(own), Part::Words(words)) => own == words,
                            (Piece::Figure(_, value), Part::Range(low, high)) => (low.1..=high.1).contains(&value),
                            _ => false,
                        };
                        prop_assert!(holds, "{message:?} in {one:?}");
                    }
                }
            }
        }
    }
}
