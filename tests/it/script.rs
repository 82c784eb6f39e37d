//! The script host: limits, modules, errors in the right place, and what a hostile script cannot do.

mod adapter;
pub mod bench;
mod check;
mod commands;
mod diagnose;
mod faults;
mod limits;
mod modules;
mod params;
