//! A user runs scripts: they stay within limits, import modules, get errors at the right place, and cannot break out.

mod adapter;
pub mod bench;
mod check;
mod commands;
mod diagnose;
mod faults;
mod limits;
mod modules;
mod params;
