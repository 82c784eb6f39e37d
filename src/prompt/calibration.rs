//! Corrects for tokens that the engine counts beyond our own count. The engine's count is authoritative.
//!
//! Engines add tokens that no file mentions: a beginning-of-sequence token set on the command line, or a default system
//! message. The difference is nearly always constant, so one response is enough; otherwise each response brings the
//! next prompt closer.

use crate::fault::{Fault, Kind, Result};

use super::PromptSpec;

/// Consecutive wrong counts before an error.
const MAX_MISSES: u32 = 4;

/// The difference between the engine's count and ours, learned from its responses. One for each protocol and prompt
/// form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    surplus: i64,
    misses: u32,
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

    /// Learns from a response: the engine counted `seen` tokens in a prompt that should have `wanted`. Returns whether
    /// they are equal; if not, the prompt must be made again.
    ///
    /// # Errors
    ///
    /// `engine` if the counts do not settle.
    pub fn observe(&mut self, wanted: usize, seen: usize) -> Result<bool> {
        let difference = i64::try_from(seen).unwrap_or(i64::MAX) - i64::try_from(wanted).unwrap_or(i64::MAX);
        if difference == 0 {
            self.misses = 0;
            return Ok(true);
        }
        self.misses += 1;
        if self.misses > MAX_MISSES {
            return Err(Fault::new(
                Kind::Engine,
                format!("the engine counts {seen} tokens in a prompt of {wanted}, and corrections do not converge"),
            )
            .hint("name the tokenizer of the model that the engine serves"));
        }
        self.surplus += difference;
        Ok(false)
    }

    /// Tokens that the engine counts beyond ours; negative if it counts fewer.
    #[must_use]
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
            prop_assert_eq!(calibration.observe(wanted, engine(first.tokens)).unwrap(), added == 0);
            match calibration.adjust(PromptSpec::text(wanted)) {
                Ok(second) => prop_assert!(calibration.observe(wanted, engine(second.tokens)).unwrap()),
                Err(fault) => prop_assert!(added >= wanted as i64, "{}", fault),
            }
        }
    }

    #[test]
    fn what_the_engine_adds_alone_can_be_too_much() {
        let mut calibration = Calibration::default();
        calibration.observe(100, 125).unwrap();
        let fault = calibration.adjust(PromptSpec::text(25)).unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some("ask for at least 26"));
        assert_eq!(calibration.adjust(PromptSpec::text(26)).unwrap().tokens, 1);
    }

    #[test]
    fn counts_that_never_settle_are_a_fault() {
        let mut calibration = Calibration::default();
        let outcome = (0..10).try_for_each(|n| calibration.observe(100, 101 + n % 2).map(drop));
        assert_eq!(outcome.unwrap_err().kind, Kind::Engine);
    }
}
