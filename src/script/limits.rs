//! What a script may hold, however it was made. Rhai sums nested values: a limit counts all that a value contains.

/// Script functions within each other. A level takes some KiB of the script thread's stack, in debug builds more.
pub(super) const CALL_LEVELS: usize = 64;
/// Elements of an array, those of nested arrays included.
pub(super) const ARRAY: usize = 4_000_000;
/// Entries of an object map, those of nested maps included.
pub(super) const MAP: usize = 2_000_000;
/// Bytes of a string, or of all strings in an array or map.
pub(super) const STRING: usize = 64 << 20;
