//! The bounds that a running engine reports, and which of them a request exceeds: memory or a configured length.

use super::Limits;

/// Bounds in tokens; `None` if the engine does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EngineBounds {
    /// KV cache size.
    pub(super) kv_tokens: Option<u64>,
    /// Longest input and output together.
    pub(super) max_model_len: Option<u64>,
    /// Longest input.
    pub(super) max_input: Option<u64>,
    /// The length to which the engine reduced itself for lack of memory.
    pub(super) fitted: Option<u64>,
}

/// A bound that a request exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// `kv_cache` or `length_limit`.
    pub(super) cause: &'static str,
    /// One sentence for the user.
    pub(super) message: String,
}

impl EngineBounds {
    /// The bound that explains why a request of this size is not served in full; the lowest if several do. Engines
    /// reserve one token of a bound (llama.cpp) or two (`SGLang`), so nearly reaching it is enough.
    pub(super) fn bound(&self, requested: &Limits) -> Option<Bound> {
        let total = requested.total;
        let reached = |bound: Option<u64>| bound.filter(|bound| *bound <= total.saturating_add(1));
        if let Some(fitted) = reached(self.fitted) {
            return Some(Bound {
                cause: "kv_cache",
                message: format!("its memory allows a length of {fitted} tokens"),
            });
        }
        let kv = reached(self.kv_tokens).filter(|kv| self.max_model_len.is_none_or(|longest| *kv < longest));
        if let Some(kv) = kv {
            return Some(Bound {
                cause: "kv_cache",
                message: format!("its KV cache holds {kv} tokens"),
            });
        }
        let limit = |what: &str, bound: u64| Bound {
            cause: "length_limit",
            message: format!("its {what} is {bound} tokens"),
        };
        reached(self.max_model_len)
            .map(|longest| limit("longest context", longest))
            .or_else(|| {
                let longest = self.max_input.filter(|longest| *longest < requested.input)?;
                Some(limit("longest input", longest))
            })
    }

    /// The bound that explains why an output ended after `output` tokens. TGI feeds its output back as input in slices,
    /// so its longest input limits the output too.
    pub(super) fn bound_of_output(&self, requested: &Limits, output: u64) -> Option<Bound> {
        self.bound(requested).or_else(|| {
            let longest = self
                .max_input
                .filter(|longest| requested.input.saturating_add(output) > *longest)?;
            Some(Bound {
                cause: "length_limit",
                message: format!("its longest input is {longest} tokens, and what it produced becomes input"),
            })
        })
    }
}

#[cfg(test)]
mod tests;
