//! One format: bits per weight, the size of its scales, and which tensors it quantizes.

use crate::memory::shape::{Dtype, Role, Tensor};

/// The scales of a matrix with `rows` outputs and `columns` inputs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::memory::estimate) enum Scales {
    /// Bytes per matrix.
    PerTensor(u64),
    /// Bytes per output.
    PerChannel(u64),
    /// For each `size` inputs of an output: bytes of the scale and bits of the zero point. `index` bytes per input.
    Group {
        size: u64,
        scale: u64,
        zero_bits: u64,
        index: u64,
    },
    /// A 4-byte scale per tile of outputs and inputs.
    WeightBlock { rows: u64, columns: u64 },
    /// An absolute maximum per `size` weights, itself quantized if `nested`.
    Bitsandbytes { size: u64, nested: bool },
}

/// Which tensors a format quantizes. Vectors never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory::estimate) enum Targets {
    /// The matrices of the layers including experts; not embedding, output matrix and routers.
    Layers,
    /// Only the routed experts.
    Experts,
    /// Every matrix.
    All,
}

/// A format of weights.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::memory) struct Scheme {
    /// For people.
    pub name: String,
    pub(in crate::memory::estimate) bits: u64,
    pub(in crate::memory::estimate) scales: Scales,
    pub(in crate::memory::estimate) targets: Targets,
}

/// Weights per second-level scale in bitsandbytes' nested quantization.
const NESTED_BLOCK: u64 = 256;
/// bitsandbytes keeps two code tables per matrix (16 and 256 float32) and one offset.
const NESTED_TABLES: u64 = 16 * 4 + 256 * 4 + 4;

impl Scheme {
    /// Bytes of a tensor in this format; in `dtype` if it is not quantized.
    #[must_use]
    pub(in crate::memory) fn bytes(&self, tensor: &Tensor, dtype: Dtype) -> u64 {
        if !self.quantizes(tensor.role) {
            return dtype.bytes(tensor.parameters());
        }
        let (rows, columns) = (tensor.rows, tensor.columns);
        let numbers = rows.saturating_mul(columns);
        let weights = bits(numbers, self.bits);
        let scales = match self.scales {
            Scales::PerTensor(bytes) => bytes,
            Scales::PerChannel(bytes) => rows.saturating_mul(bytes),
            Scales::Group {
                size,
                scale,
                zero_bits,
                index,
            } => {
                let groups = rows.saturating_mul(columns.div_ceil(size));
                groups
                    .saturating_mul(scale)
                    .saturating_add(bits(groups, zero_bits))
                    .saturating_add(columns.saturating_mul(index))
            }
            Scales::WeightBlock {
                rows: high,
                columns: wide,
            } => rows
                .div_ceil(high)
                .saturating_mul(columns.div_ceil(wide))
                .saturating_mul(4),
            Scales::Bitsandbytes { size, nested } => {
                let blocks = numbers.div_ceil(size);
                match nested {
                    true => blocks
                        .saturating_add(blocks.div_ceil(NESTED_BLOCK).saturating_mul(4))
                        .saturating_add(NESTED_TABLES),
                    false => blocks.saturating_mul(4).saturating_add(16 * 4),
                }
            }
        };
        weights.saturating_add(scales).saturating_mul(tensor.copies)
    }

    fn quantizes(&self, role: Role) -> bool {
        match (self.targets, role) {
            (_, Role::Vector) => false,
            (Targets::All, _) | (Targets::Layers, Role::Linear | Role::Expert) | (Targets::Experts, Role::Expert) => {
                true
            }
            (Targets::Layers | Targets::Experts, _) => false,
        }
    }
}

fn bits(numbers: u64, bits: u64) -> u64 {
    let bytes = (u128::from(numbers) * u128::from(bits)).div_ceil(8);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
