//! The handle by which scripts hold a known truth.

use std::sync::Arc;

use crate::boundary::Truth;

/// A known truth, shared by every copy of its handle.
#[derive(Clone)]
pub(super) struct TruthHandle(pub(super) Arc<Truth>);
