#![doc = include_str!("../ARCHITECTURE.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they wrote"))]

pub mod answer;
pub mod cli;
pub mod compare;
pub mod csv;
pub mod engine;
pub mod evidence;
pub mod fault;
pub mod file;
pub mod home;
pub mod http;
pub mod load;
pub mod memory;
pub mod outside;
pub mod own_program;
pub mod prompt;
pub mod report;
pub mod run;
pub mod runtime;
pub mod script;
pub mod sim;
pub mod task;
pub mod telemetry;
pub mod temporary;
pub mod tls;
pub mod warning;
pub mod world;

pub use profiler_search::{boundary, cost, experiment, fmt};
