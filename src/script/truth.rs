//! The handle by which scripts hold a known boundary.

use std::sync::Arc;

use crate::boundary::KnownBoundary;

/// A known boundary, shared by all copies of its handle.
#[derive(Clone)]
pub(super) struct TruthHandle(pub(super) Arc<KnownBoundary>);
