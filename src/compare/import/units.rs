//! What the tools call gigabytes and megabytes, in bytes.

/// A mebibyte: what `nvidia-smi` and torch's counters divided by 1024^2 give, whatever it is called.
pub(super) const MIB: f64 = 1024.0 * 1024.0;

/// A gibibyte.
pub(super) const GIB: f64 = 1024.0 * MIB;

/// A gigabyte of ten to the ninth.
pub(super) const GB: f64 = 1e9;

/// A figure in a unit, in bytes; none where it is below zero or beyond any device.
pub(super) fn bytes(figure: Option<f64>, unit: f64) -> Option<i64> {
    figure
        .map(|figure| (figure * unit).round())
        .filter(|bytes| (0.0..=9e15).contains(bytes))
        .map(|bytes| bytes as i64)
}
