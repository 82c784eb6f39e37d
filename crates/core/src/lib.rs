//! The modules that search and compute, and what they need. Pure. They are optimised in every build.

pub mod boundary;
pub mod experiment;
pub mod fault;
pub mod fmt;
