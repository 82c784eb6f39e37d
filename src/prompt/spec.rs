//! The specification of a prompt, the prompt, and the correction of its length by the engine's count.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// Maximum prompt length in tokens: beyond every context length; 64 MiB as ids.
pub const MAX_TOKENS: usize = 1 << 24;

/// How a prompt is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Token ids.
    Tokens,
    /// Text.
    Text,
}

/// The specification of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSpec {
    /// Token count including everything that the engine adds: special tokens, and the chat template if `chat` is set.
    pub tokens: usize,
    /// Token ids or text.
    pub form: PromptForm,
    /// Whether the text is the content of a single user message in the model's chat template.
    pub chat: bool,
    /// Number of leading tokens that all prompts of one seed share, including those that the engine adds in front.
    pub shared_prefix: usize,
}

impl PromptSpec {
    /// `tokens` token ids without a shared prefix.
    pub fn ids(tokens: usize) -> Self {
        Self {
            tokens,
            form: PromptForm::Tokens,
            chat: false,
            shared_prefix: 0,
        }
    }

    /// Text of `tokens` tokens, including special tokens.
    pub fn text(tokens: usize) -> Self {
        Self {
            form: PromptForm::Text,
            ..Self::ids(tokens)
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.tokens > MAX_TOKENS {
            return Err(Fault::usage(format!(
                "a prompt of {} tokens is longer than the {MAX_TOKENS} that can be made",
                self.tokens
            )));
        }
        if self.shared_prefix > 0 && self.shared_prefix >= self.tokens {
            return Err(Fault::usage(format!(
                "`shared_prefix` of {} tokens leaves nothing unique in a prompt of {}",
                self.shared_prefix, self.tokens
            ))
            .hint(format!("at most {}", self.tokens.saturating_sub(1))));
        }
        if self.chat && self.form == PromptForm::Tokens {
            return Err(Fault::usage("a chat message is text, not token ids").hint("leave `chat` out, or ask for text"));
        }
        Ok(())
    }
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The ids or text to send.
    pub content: Content,
    /// Token count including everything that the engine adds.
    pub count: usize,
}

/// Content of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Token ids, used by the engine as they are.
    Tokens(Vec<u32>),
    /// Text.
    Text(String),
}

/// Whether a prompt may be taken for one of `asked` tokens where no correction makes it exact: 1 % or 8 tokens off.
pub fn is_near(counted: u64, asked: u64) -> bool {
    counted.abs_diff(asked) <= (asked / 100).max(8)
}

/// The difference between the engine's count and ours, learned from its responses. One for each protocol and prompt
/// form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    surplus: i64,
    misses: u32,
    /// The length of the newest count.
    wanted: usize,
}

impl Calibration {
    /// The specification to pass to [`super::Prompts`] so that the engine counts `spec.tokens`.
    ///
    /// # Errors
    ///
    /// `usage` if the engine adds more tokens than that; the hint names the minimum length.
    pub fn adjust(&self, spec: PromptSpec) -> Result<PromptSpec> {
        let own = i64::try_from(spec.tokens)
            .unwrap_or(i64::MAX)
            .saturating_sub(self.surplus);
        match usize::try_from(own) {
            Ok(tokens) if tokens > 0 => Ok(PromptSpec { tokens, ..spec }),
            _ => Err(Fault::usage(format!(
                "a prompt of {} tokens is impossible: the engine adds {} of its own",
                spec.tokens, self.surplus
            ))
            .hint(format!("ask for at least {}", self.surplus + 1))),
        }
    }

    /// Learns from a response: the engine counted `seen` tokens in a prompt that should have `wanted`. Returns how many
    /// counts in a row were wrong, 0 if this one was right; of those of another length before, one counts.
    pub fn observe(&mut self, wanted: usize, seen: usize) -> u32 {
        let difference = i64::try_from(seen).unwrap_or(i64::MAX) - i64::try_from(wanted).unwrap_or(i64::MAX);
        if wanted != self.wanted {
            self.misses = self.misses.min(1);
        }
        self.wanted = wanted;
        self.surplus += difference;
        self.misses = if difference == 0 { 0 } else { self.misses + 1 };
        self.misses
    }

    /// Tokens that the engine counts beyond ours; negative if it counts fewer.
    pub fn surplus(&self) -> i64 {
        self.surplus
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn one_answer_settles_a_constant_difference(wanted in 10_usize..100_000, added in -9_i64..500) {
            let mut calibration = Calibration::default();
            let engine = |own: usize| usize::try_from(own as i64 + added).unwrap();
            let first = calibration.adjust(PromptSpec::text(wanted)).unwrap();
            prop_assert_eq!(first.tokens, wanted);
            prop_assert_eq!(calibration.observe(wanted, engine(first.tokens)), u32::from(added != 0));
            match calibration.adjust(PromptSpec::text(wanted)) {
                Ok(second) => prop_assert_eq!(calibration.observe(wanted, engine(second.tokens)), 0),
                Err(fault) => prop_assert!(added >= wanted as i64, "{}", fault),
            }
        }
    }

    #[test]
    fn what_the_engine_adds_alone_can_be_too_much() {
        let mut calibration = Calibration::default();
        calibration.observe(100, 125);
        let fault = calibration.adjust(PromptSpec::text(25)).unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some("ask for at least 26"));
        assert_eq!(calibration.adjust(PromptSpec::text(26)).unwrap().tokens, 1);
    }

    #[test]
    fn counts_that_never_settle_are_counted_anew_for_another_length() {
        let mut calibration = Calibration::default();
        let misses: Vec<u32> = (0..3).map(|n| calibration.observe(100, 101 + n % 2)).collect();
        assert_eq!(misses, [1, 2, 3]);
        assert_eq!(calibration.observe(200, 203), 2);
        assert_eq!(calibration.observe(200, 200), 0);
    }
}
