//! One format: bits of a weight, what its scales take, which tensors it touches.

use crate::memory::shape::{Dtype, Role, Tensor};

/// What belongs to the weights of a matrix of `rows` outputs and `columns` inputs beside them.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::memory::estimate) enum Scales {
    /// So many bytes for a matrix.
    Matrix(u64),
    /// So many bytes for each output.
    Row(u64),
    /// For each `size` inputs of an output: bytes of the scale and bits of the zero point. For each input `index` bytes.
    Group {
        size: u64,
        scale: u64,
        zero_bits: u64,
        index: u64,
    },
    /// A 4-byte scale for each tile of so many outputs and inputs.
    Tile { rows: u64, columns: u64 },
    /// bitsandbytes: for each `size` weights an absolute maximum, itself quantized where `nested`.
    Blocks { size: u64, nested: bool },
}

/// Which tensors a format quantizes. Vectors never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory::estimate) enum Touches {
    /// The matrices of the layers, experts included; not embedding, output matrix and routers.
    Layers,
    /// Only the routed experts.
    Experts,
    /// Every matrix.
    All,
}

/// A format of weights.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::memory) struct Scheme {
    /// Its name, for people.
    pub name: String,
    pub(in crate::memory::estimate) bits: u64,
    pub(in crate::memory::estimate) scales: Scales,
    pub(in crate::memory::estimate) touches: Touches,
}

/// Weights that share one second-level scale in bitsandbytes' nested quantization.
const NESTED_BLOCK: u64 = 256;
/// bitsandbytes keeps two tables of code values for each matrix (16 and 256 float32) and one offset.
const NESTED_TABLES: u64 = 16 * 4 + 256 * 4 + 4;

impl Scheme {
    /// Bytes of a tensor in this format, what it does not touch in `dtype`.
    #[must_use]
    pub(in crate::memory) fn bytes(&self, tensor: &Tensor, dtype: Dtype) -> u64 {
        if !self.touched(tensor.role) {
            return dtype.bytes(tensor.parameters());
        }
        let (rows, columns) = (tensor.rows, tensor.columns);
        let numbers = rows.saturating_mul(columns);
        let weights = bits(numbers, self.bits);
        let beside = match self.scales {
            Scales::Matrix(bytes) => bytes,
            Scales::Row(bytes) => rows.saturating_mul(bytes),
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
            Scales::Tile {
                rows: high,
                columns: wide,
            } => rows
                .div_ceil(high)
                .saturating_mul(columns.div_ceil(wide))
                .saturating_mul(4),
            Scales::Blocks { size, nested } => {
                let blocks = numbers.div_ceil(size);
                match nested {
                    true => blocks
                        .saturating_add(blocks.div_ceil(NESTED_BLOCK).saturating_mul(4))
                        .saturating_add(NESTED_TABLES),
                    false => blocks.saturating_mul(4).saturating_add(16 * 4),
                }
            }
        };
        weights.saturating_add(beside).saturating_mul(tensor.copies)
    }

    fn touched(&self, role: Role) -> bool {
        match (self.touches, role) {
            (_, Role::Vector) => false,
            (Touches::All, _) | (Touches::Layers, Role::Linear | Role::Expert) | (Touches::Experts, Role::Expert) => {
                true
            }
            (Touches::Layers | Touches::Experts, _) => false,
        }
    }
}

/// Bytes of so many numbers of so many bits.
fn bits(numbers: u64, bits: u64) -> u64 {
    let bytes = (u128::from(numbers) * u128::from(bits)).div_ceil(8);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
