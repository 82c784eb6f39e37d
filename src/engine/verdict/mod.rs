//! Interprets failures and answers: rules for messages, bounds that an engine reports, starts that failed, and the
//! verdict of a probe. No I/O.

pub(super) mod bounds;
pub(super) mod failure;
pub(super) mod judge;
pub(super) mod observation;
pub(super) mod reason;
pub(super) mod residency;
pub(super) mod rules;
pub(super) mod sizes;
