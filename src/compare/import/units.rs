//! Bytes in the units that the tools call megabytes and gigabytes.

/// What `nvidia-smi` and torch's counters divided by 1024^2 give.
pub(super) const MIB: f64 = 1024.0 * 1024.0;

pub(super) const GIB: f64 = 1024.0 * MIB;

pub(super) const GB: f64 = 1e9;

/// Converts to bytes; `None` if negative or larger than any device.
pub(super) fn bytes(figure: Option<f64>, unit: f64) -> Option<i64> {
    figure
        .map(|figure| (figure * unit).round())
        .filter(|bytes| (0.0..=9e15).contains(bytes))
        .map(|bytes| bytes as i64)
}
