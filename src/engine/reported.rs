//! What a running engine says of its own bounds, and which of them a request runs into: memory, or a length that was set. Pure.

use super::Limits;

/// Bounds as the engine reported them, in tokens; `None` where it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reported {
    /// What its KV cache holds.
    pub(super) kv_tokens: Option<u64>,
    /// Longest input and output together.
    pub(super) max_model_len: Option<u64>,
    /// Longest input.
    pub(super) max_input: Option<u64>,
    /// The length to which it shrank itself for lack of memory.
    pub(super) fitted: Option<u64>,
}

/// A bound that a request runs into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// `kv_cache` or `length_limit`.
    pub(super) cause: &'static str,
    /// For people.
    pub(super) message: String,
}

impl Reported {
    /// The bound that explains why a request of this size is not served in full. Engines keep a token of either bound for themselves
    /// (llama.cpp), or two (`SGLang`), so coming so near explains as much as passing it. Of two bounds the lower one counts.
    pub(super) fn bound(&self, asked: &Limits) -> Option<Bound> {
        let total = asked.total;
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
                let longest = self.max_input.filter(|longest| *longest < asked.input)?;
                Some(limit("longest input", longest))
            })
    }

    /// The bound that explains an output that ended after `output` tokens. TGI makes what it has produced into input again, slice by
    /// slice, so its longest input ends a generation too.
    pub(super) fn bound_of_output(&self, asked: &Limits, output: u64) -> Option<Bound> {
        self.bound(asked).or_else(|| {
            let longest = self
                .max_input
                .filter(|longest| asked.input.saturating_add(output) > *longest)?;
            Some(Bound {
                cause: "length_limit",
                message: format!("its longest input is {longest} tokens, and what it produced becomes input"),
            })
        })
    }
}

#[cfg(test)]
mod tests;
