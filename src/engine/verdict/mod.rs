//! What failures and answers mean.

pub(super) mod rules;
