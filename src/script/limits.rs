//! Size limits of script values. Rhai sums nested values: a limit includes everything that a value contains.

/// Depth of script function calls. A level takes some KiB of the script thread's stack, more in debug builds.
pub(super) const CALL_LEVELS: usize = 64;
/// Elements of an array, including nested arrays.
pub(super) const ARRAY: usize = 4_000_000;
/// Entries of a map, including nested maps.
pub(super) const MAP: usize = 2_000_000;
/// Bytes of a string, or of all strings in an array or map.
pub(super) const STRING: usize = 64 << 20;
