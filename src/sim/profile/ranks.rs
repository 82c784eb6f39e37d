//! Tensor parallelism: memory of each device, and the speed-up.

use serde::{Deserialize, Serialize};

use super::{MemoryProfile, Profile};
use crate::fault::{Fault, Result};

/// Changes with several devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorParallel {
    /// Buffers and code for communication, on each device.
    pub communication_mib: f64,
    /// Share of the first device's speed that each further device adds, 0 to 1.
    pub efficiency: f64,
}

impl TensorParallel {
    pub(super) fn check(self) -> Result<()> {
        if !(self.communication_mib.is_finite()
            && self.communication_mib >= 0.0
            && (0.0..=1.0).contains(&self.efficiency))
        {
            return Err(Fault::usage(
                "`communication_mib` must be a size, and `efficiency` within 0 to 1",
            ));
        }
        Ok(())
    }
}

impl Profile {
    /// Per-rank profile: weights and KV cache are divided by `ranks`; activations, graphs and context are not.
    /// Unchanged for one rank or when unmeasured.
    #[must_use]
    pub(in crate::sim) fn per_rank(mut self, ranks: u64) -> Self {
        let (Some(parallel), MemoryProfile::Pool(pool)) = (self.tensor_parallel, &mut self.memory) else {
            return self;
        };
        if ranks <= 1 {
            return self;
        }
        let count = ranks as f64;
        pool.weights_mib /= count;
        pool.fp8_mib /= count;
        pool.context_mib += parallel.communication_mib;
        pool.kv.bytes_per_token = pool.kv.bytes_per_token.div_ceil(ranks);
        let faster = 1.0 + (count - 1.0) * parallel.efficiency;
        let time = &mut self.time;
        time.load_seconds /= count;
        time.prefill_tokens_per_second *= faster;
        time.step_seconds /= faster;
        time.step_eager_seconds /= faster;
        time.sequence_seconds /= faster;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_devices_hold_half_each_plus_communication_buffers() {
        let one = Profile::load("llama-8b-h200-vllm").unwrap();
        assert_eq!(one.clone().per_rank(1), one);
        let two = one.clone().per_rank(2);
        let (MemoryProfile::Pool(whole), MemoryProfile::Pool(half)) = (&one.memory, &two.memory) else {
            panic!()
        };
        assert!((2.0 * half.weights_mib - whole.weights_mib).abs() < 1e-9);
        assert_eq!(2 * half.kv.bytes_per_token, whole.kv.bytes_per_token);
        assert!(half.context_mib > whole.context_mib);
        assert!(two.time.step_seconds < one.time.step_seconds && two.time.step_seconds > one.time.step_seconds / 2.0);
        // Not measured, so unchanged.
        let trtllm = Profile::load("llama-1b-h200-trtllm").unwrap();
        assert_eq!(trtllm.clone().per_rank(2), trtllm);
    }
}
